/**
 * The gateway example as a user starts it: a whole run, one that is interrupted,
 * and every check of its verdict made to fire.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'

const GATEWAY = fileURLToPath(new URL('../examples/gateway.js', import.meta.url))
const WORKERS = 4

/** Starts the gateway; `until` resolves with the output once it holds the pattern. */
function startGateway(...args: string[]) {
  const child = spawn(process.execPath, [GATEWAY, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  let out = ''
  let err = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => { out += text })
  child.stderr.setEncoding('utf8').on('data', (text: string) => { err += text })
  const closed = once(child, 'close')
  onTestFinished(() => { child.kill('SIGKILL') })

  return {
    child,
    async until(pattern: RegExp): Promise<RegExpExecArray> {
      for (;;) {
        const match = pattern.exec(out)
        if (match !== null) return match
        await Promise.race([once(child.stdout, 'data'), closed.then(() => { throw new Error(`ended without ${pattern}:\n${out}${err}`) })])
      }
    },
    async end() {
      const [code, signal] = await closed
      return { code, signal, out, err, summary: out.slice(out.search(/^(Done|Interrupted)/m)) }
    },
  }
}

/** The numbers of a class's row in the summary. */
function classRow(summary: string, name: string) {
  const row = new RegExp(`^${name} .*$`, 'm').exec(summary)
  const [keys, rate, burst, requested, admitted, refused, allowance] = row![0].match(/[\d.]+/g)!.map(Number)
  return { keys: keys!, rate: rate!, burst: burst!, requested: requested!, admitted: admitted!, refused: refused!, allowance: allowance! }
}

describe('the gateway example', () => {
  it('admits exactly what its policies allow while all workers decide about the same keys', { timeout: 60_000 }, async () => {
    let summary = ''
    // A machine too busy for an overload proves nothing, so it has three tries; a violation has none.
    for (let i = 0; i < 3 && !/^VERDICT: EXACT$/m.test(summary); i++) {
      const gateway = startGateway('--seconds', '3', '--workers', String(WORKERS))
      const [url] = await gateway.until(/http:\/\/127\.0\.0\.1:\d+/)
      expect((await fetch(url)).status).toBe(401)

      const { code, signal, err, ...run } = await gateway.end()
      summary = run.summary
      expect(err).toBe('')
      expect({ code, signal }, summary).toEqual({ code: 0, signal: null })
    }
    expect(summary).toMatch(/^VERDICT: EXACT$/m)

    const served = /^workers +decided (.*)$/m.exec(summary)![1]!.split(' + ').map(Number)
    expect(served).toHaveLength(WORKERS)
    expect(Math.min(...served)).toBeGreaterThan(0)
    const [, shared] = /^contention +(\d+) of \d+ keys/m.exec(summary)!.map(Number)
    expect(shared).toBeGreaterThan(5)
    expect(summary).toMatch(/^clients +saw [1-9]\d* x 200, [1-9]\d* x 429 \+ Retry-After, 0 else, 0 errors$/m)

    const greedy = classRow(summary, 'greedy')
    expect(greedy.requested).toBe(greedy.admitted + greedy.refused)
    expect(greedy.requested).toBeGreaterThan(greedy.allowance)
    expect(greedy.admitted).toBeLessThanOrEqual(greedy.allowance)
    expect(classRow(summary, 'bursty').refused).toBeGreaterThan(0)
    expect(classRow(summary, 'steady').refused).toBe(0)

    const lines = summary.trimEnd().split('\n')
    expect(lines.length).toBeLessThanOrEqual(24)
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80)
  })

  it('ends on Ctrl-C with the summary of what was done so far, even if the signal comes twice', { timeout: 30_000 }, async () => {
    const gateway = startGateway('--seconds', '60', '--workers', '2')
    await gateway.until(/^ +1\|/m)
    gateway.child.kill('SIGINT')
    gateway.child.kill('SIGINT')

    const { code, signal, summary, err } = await gateway.end()
    expect(err).toBe('')
    expect({ code, signal }, summary).toEqual({ code: 0, signal: null })
    expect(summary).toMatch(/^Interrupted after [12]\.\d s, 2 workers/)
    expect(summary).toMatch(/^VERDICT: (EXACT|nothing violated)/m)
    expect(classRow(summary, 'greedy').admitted).toBeGreaterThan(0)
  })

  it('says what it does not understand, and exits with 2', async () => {
    const { code, err } = await startGateway('--workers', '0').end()
    expect(code).toBe(2)
    expect(err).toContain('"workers" expected an integer from 1 to 64, got 0')
  })
})

describe('the verdict of the gateway example', () => {
  const SECOND = 1_000_000_000n
  const from = 1000n * SECOND
  const to = from + 10n * SECOND

  /** A worker's books on a key over 10 s: full at first, refused at last. */
  function tally(requested: number, admitted: number, times: Record<string, bigint> = {}) {
    return { requested, admitted, firstNs: from, lastNs: to, firstAdmittedNs: from, lastAdmittedNs: to, lastFullNs: from, lastRefusedNs: to, ...times }
  }
  type Book = [string, ReturnType<typeof tally>][]

  // burst 80 + 30/s x 10 s = 380
  const greedy = (admitted: number, requested = 2000, times = {}): Book[0] => ['greedy-0', tally(requested, admitted, times)]
  const steady = (refused: number): Book[0] => ['steady-0', tally(20, 20 - refused, { lastRefusedNs: 0n })]

  /** What does not hold for these books of the workers; the table counted `off` more than they did. */
  async function findings(books: Book[], { off = 0, evicted = 0, clean = true } = {}): Promise<string[]> {
    const at = (file: string) => new URL(`../examples/gateway/${file}`, import.meta.url).href
    const { judge, mergeTallies, sumClass } = await import(at('verdict.js'))
    const { CLASSES } = await import(at('classes.js'))
    const counts = mergeTallies(books.map((book) => new Map(book)))
    const limiters = Object.fromEntries(CLASSES.map((clientClass: { name: string }) => {
      const { requested, admitted } = sumClass(clientClass, counts)
      return [clientClass.name, { allowed: admitted + off, denied: requested - admitted }]
    }))
    return judge(counts, { evicted, limiters }, { clean })
      .filter(({ holds }: { holds?: boolean }) => holds !== true)
      .map(({ name, holds }: { name: string, holds?: boolean }) => `${name}: ${holds}`)
  }

  const cases: [string, Book[], Parameters<typeof findings>[1], string[]][] = [
    ['holds for the exact allowance, summed over the workers', [[greedy(200), steady(0)], [greedy(180)]], {}, []],
    ['fires for one token too many', [[greedy(200), steady(0)], [greedy(181)]], {}, ['no more: false']],
    ['fires for one token too few', [[greedy(379), steady(0)]], {}, ['no less: false']],
    ['fires for more than 1 % too few in overload', [[greedy(376), steady(0)]], {}, ['no less: false', 'overload: false']],
    ['fires for one key with too few among others', [[greedy(380), steady(0), ['greedy-1', tally(2000, 376)]]], {}, ['no less: false', 'overload: false']],
    ['fires for a refusal below the rate', [[greedy(380), steady(1)]], {}, ['no wrong: false']],
    ['fires for a table that counted something else', [[greedy(380), steady(0)]], { off: 1 }, ['counters: false']],
    ['fires for an eviction', [[greedy(380), steady(0)]], { evicted: 1 }, ['counters: false']],
    ['fires for an audit that is not clean', [[greedy(380), steady(0)]], { clean: false }, ['counters: false']],
    ['judges too much by the time of the admitted requests alone', [[greedy(380, 2000, { lastAdmittedNs: to - 1n }), steady(0)]], {}, ['no more: false']],
    ['owes nothing for the time a full bucket was left alone', [[greedy(365, 2000, { lastFullNs: from + SECOND / 2n }), steady(0)]], {}, []],
    ['owes nothing for the time after the last refusal', [[greedy(320, 2000, { lastRefusedNs: to - 2n * SECOND }), steady(0)]], {}, []],
    ['does not call it overload when the bucket was full again', [[greedy(380, 2000, { lastFullNs: from + 2n * SECOND }), steady(0)]], {}, ['overload: undefined']],
    ['does not call it overload when a key asked for little', [[greedy(380, 800), steady(0)]], {}, ['overload: undefined']],
    ['does not judge an overload of which one token is more than 1 %', [[greedy(95, 2000, { lastRefusedNs: from + SECOND / 2n }), steady(0)]], {}, ['overload: undefined']],
    ['does not judge what was never asked', [[]], {}, ['no more: undefined', 'no less: undefined', 'overload: undefined', 'no wrong: undefined']],
  ]
  it.each(cases)('%s', async (_, books, table, expected) => {
    expect(await findings(books, table)).toEqual(expected)
  })
})
