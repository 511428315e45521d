// A connection without a socket: a stream that a server takes for one. On its
// other side a client asks again as soon as it has its answer.

import type { Server } from "node:http";
import { Duplex } from "node:stream";

const REQUEST = Buffer.from(
  "GET / HTTP/1.1\r\nHost: example.org\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n",
  "latin1",
);

/**
 * Connects to `server`, which need not listen. Returns a function that makes a
 * number of requests, one after the other, and resolves to how many were
 * answered with `status`.
 */
export function openConnection(server: Server, status: number): (requests: number) => Promise<number> {
  const expected = `HTTP/1.1 ${status} `;
  let left = 0;
  let right = 0;
  let done: (right: number) => void;
  const answered = (text: string): void => {
    if (text.startsWith(expected)) right++;
    if (--left === 0) done(right);
    else connection.push(REQUEST);
  };
  const connection = new Duplex({
    read() {},
    write(chunk: Buffer, _, callback) {
      callback();
      answered(chunk.toString("latin1", 0, 16));
    },
    writev(chunks: { chunk: Buffer }[], callback) {
      callback();
      answered(chunks[0].chunk.toString("latin1", 0, 16));
    },
  });
  Object.assign(connection, { remoteAddress: "203.0.113.7" });
  server.emit("connection", connection);
  return (requests) =>
    new Promise((resolve) => {
      left = requests;
      right = 0;
      done = resolve;
      connection.push(REQUEST);
    });
}
