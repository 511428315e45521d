/**
 * One public port in front of the workers' own: every connection is piped to
 * the next worker in turn. For systems whose threads cannot bind one port
 * themselves; everything passes through this one thread.
 *
 * The worker learns the client's address from a first line that the balancer
 * writes (PROXY protocol, version 1: www.haproxy.org/download/3.0/doc/proxy-protocol.txt).
 */
import { once } from "node:events";
import { connect, createServer } from "node:net";

/**
 * Whether threads can bind one port, each for itself, and the system spreads
 * the connections over them (`listen({ reusePort: true })`).
 */
export const CAN_SHARE_PORT = process.platform === "linux" && isAtLeast([22, 12]);

function isAtLeast([major, minor]) {
  const [ourMajor, ourMinor] = process.versions.node.split(".").map(Number);
  return ourMajor > major || (ourMajor === major && ourMinor >= minor);
}

/** @param {{ host: string, port: number }} listen */
export async function openBalancer({ host, port }) {
  /** Ports of the workers, on the loopback. @type {number[]} */
  let ports = [];
  let turn = 0;
  /** @type {Set<import('node:net').Socket>} */
  const open = new Set();

  function join(client) {
    const worker = connect({ host: "127.0.0.1", port: ports[turn++ % ports.length], noDelay: true });
    const family = client.remoteAddress?.includes(":") ? "TCP6" : "TCP4";
    worker.write(
      `PROXY ${family} ${client.remoteAddress} ${client.localAddress} ${client.remotePort} ${client.localPort}\r\n`,
    );
    for (const [near, far] of [[client, worker], [worker, client]]) {
      open.add(near);
      near.pipe(far);
      near.on("error", () => far.destroy());
      near.on("close", () => {
        open.delete(near);
        far.destroySoon();
      });
    }
  }

  const server = createServer({ noDelay: true, allowHalfOpen: true }, (client) => {
    if (ports.length > 0 && client.remoteAddress !== undefined) join(client);
    else client.destroy();
  });
  server.listen({ host, port });
  await once(server, "listening");

  return {
    port: server.address().port,
    /** Whom new connections go to. */
    spreadOver(workers) {
      ports = workers;
    },
    /** Takes no more connections. */
    stop() {
      server.close();
    },
    /** Ends those that are open. */
    cut() {
      for (const socket of open) socket.destroy();
    },
  };
}

/** The worker's side: gives the server's connections the client's address, from the first line. */
export function behindBalancer(server) {
  const [accept] = server.listeners("connection");
  server.removeAllListeners("connection");
  server.on("connection", (socket) => {
    socket.on("error", () => socket.destroy());
    socket.once("data", (bytes) => {
      const end = bytes.indexOf("\r\n");
      const [protocol, , remoteAddress] = bytes.subarray(0, Math.max(0, end)).toString("latin1").split(" ");
      if (protocol !== "PROXY") return socket.destroy();
      socket.pause();
      socket.unshift(bytes.subarray(end + 2));
      Object.defineProperty(socket, "remoteAddress", { value: remoteAddress });
      accept.call(server, socket);
      socket.resume();
    });
  });
}
