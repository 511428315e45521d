/**
 * One public port in front of the workers: each connection is piped to the next
 * worker in turn. For systems where several threads cannot bind the same port. All
 * traffic then passes through the main thread.
 *
 * The first line on a connection to a worker carries the client's address (PROXY
 * protocol, version 1: www.haproxy.org/download/3.0/doc/proxy-protocol.txt).
 */
import { once } from "node:events";
import type { Server as HttpServer } from "node:http";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/**
 * Whether several threads can bind the same port, so that the system spreads the
 * connections over them (`listen({ reusePort: true })`).
 */
export const CAN_SHARE_PORT = process.platform === "linux" && isNode(22, 12);

function isNode(major: number, minor: number): boolean {
  const [ourMajor, ourMinor] = process.versions.node.split(".").map(Number);
  return ourMajor > major || (ourMajor === major && ourMinor >= minor);
}

export interface Balancer {
  readonly port: number;
  /** Sends new connections to these ports on the loopback interface, in turn. */
  spreadOver(ports: number[]): void;
  /** Stops accepting connections. */
  stop(): void;
  /** Cuts the open connections off. */
  cut(): void;
}

export async function openBalancer(listen: { host: string; port: number }): Promise<Balancer> {
  let ports: number[] = [];
  let turn = 0;
  const open = new Set<Socket>();

  function pipeToWorker(client: Socket): void {
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
    if (ports.length > 0 && client.remoteAddress !== undefined) pipeToWorker(client);
    else client.destroy();
  });
  server.listen(listen);
  await once(server, "listening");

  return {
    port: (server.address() as AddressInfo).port,
    spreadOver(workers) {
      ports = workers;
    },
    stop() {
      server.close();
    },
    cut() {
      for (const socket of open) socket.destroy();
    },
  };
}

/** For a worker's server: reads the client's address from the balancer's line and gives it to the connection. */
export function readBalancerLine(server: HttpServer): void {
  const [accept] = server.listeners("connection");
  server.removeAllListeners("connection");
  server.on("connection", (socket: Socket) => {
    socket.on("error", () => socket.destroy());
    socket.once("data", (bytes: Buffer) => {
      const end = bytes.indexOf("\r\n");
      const [protocol, , remoteAddress] = bytes.subarray(0, Math.max(0, end)).toString("latin1").split(" ");
      if (protocol !== "PROXY") {
        socket.destroy();
        return;
      }
      socket.pause();
      socket.unshift(bytes.subarray(end + 2));
      Object.defineProperty(socket, "remoteAddress", { value: remoteAddress });
      accept.call(server, socket);
      socket.resume();
    });
  });
}
