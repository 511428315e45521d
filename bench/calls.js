// What do the calls other than allow cost? Each by itself, for information:
// nothing is compared, so tinybench's own way of measuring serves.

import { Bench } from 'tinybench'
import { perDay, Sluice } from 'sluice'
import { benchmark } from './cases.js'
import { number, table } from './report.js'

async function calls(quick) {
  const sluice = Sluice.create({ capacity: 1000, clock: 'coarse' })
  const limiter = sluice.tokenBucket('calls', { rate: perDay(1), burst: 2 ** 31 - 1 })
  const tenant = sluice.tokenBucket('tenant', { rate: perDay(1), burst: 2 ** 31 - 1 })
  const key = limiter.key('10.0.0.1')
  const bench = new Bench({ time: quick ? 50 : 500, warmupTime: 50 })
  bench
    .add('allow(key)', () => limiter.allow('10.0.0.1'))
    .add('check(key)', () => limiter.check('10.0.0.1'))
    .add('peek(key)', () => limiter.peek('10.0.0.1'))
    .add('key().check()', () => key.check())
    .add('reserve(key), cancel()', () => limiter.reserve('10.0.0.1').cancel())
    .add('charge(key), refund(key)', () => {
      limiter.charge('10.0.0.1')
      limiter.refund('10.0.0.1')
    })
    .add('await wait(key), at once', async () => limiter.wait('10.0.0.1'))
    .add('all of two limiters', () => sluice.all([[limiter, '10.0.0.1'], [tenant, 'acme']]))
    .add('setRate()', () => limiter.setRate(perDay(1)))
  await bench.run()
  sluice.close()
  return {
    text: table(
      ['call, coarse clock', 'ns, median', 'ns, 99th percentile'],
      bench.tasks.map(({ name, result }) => {
        if (result.state === 'errored') throw result.error
        return [name, number(result.latency.p50 * 1e6), number(result.latency.p99 * 1e6)]
      }),
    ),
    figures: [],
  }
}

await benchmark(import.meta.url, {
  question: 'What do the calls other than allow cost?',
  cases: { calls },
  notMeasured: ['waits that have to wait', 'calls of several threads', 'the timer itself, which is some 50 ns of each figure'],
})
