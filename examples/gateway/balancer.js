/**
 * One public port in front of the workers' own: every connection is piped to
 * the next worker in turn.
 *
 * Threads cannot share a listening socket as processes under node:cluster do:
 * a socket cannot be posted to a Worker. `listen({ reusePort: true })` would
 * let each thread bind the port itself, but it came with Node 22.12 and 23.1,
 * not every platform has it, and the kernel picks by a hash, which can leave
 * a worker of four without one connection in a small run. This works on every
 * Node, and the turns are even.
 */
import { connect, createServer } from 'node:net'
import { once } from 'node:events'

/**
 * @param {string} host      to listen on and to find the workers at
 * @param {number[]} ports   of the workers
 */
export async function openBalancer(host, ports) {
  /** @type {Set<import('node:net').Socket>} */
  const open = new Set()
  let turn = 0

  const server = createServer({ noDelay: true }, (client) => {
    const worker = connect({ host, port: ports[turn++ % ports.length], noDelay: true })
    for (const [near, far] of [[client, worker], [worker, client]]) {
      open.add(near)
      near.pipe(far)
      near.on('error', () => far.destroy())
      near.on('close', () => {
        open.delete(near)
        far.destroy()
      })
    }
  })
  server.listen({ host, port: 0 })
  await once(server, 'listening')

  return {
    port: server.address().port,
    /** Ends every connection and gives the port back. */
    async close() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of open) socket.destroy()
      await closed
    },
  }
}
