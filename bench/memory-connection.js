// A connection without a socket: a stream that a server takes for one, and on
// whose other side a client asks again as soon as it is answered.

import { Duplex } from "node:stream";

const REQUEST = Buffer.from(
  "GET / HTTP/1.1\r\nHost: example.org\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n",
  "latin1",
);

/**
 * Connects to `server`, which need not listen. Returns a function that makes so
 * many requests, one after the other, and resolves to how many were answered
 * with `status`.
 */
export function openConnection(server, status) {
  const expected = `HTTP/1.1 ${status} `;
  let left = 0;
  let right = 0;
  let done;
  const answered = (text) => {
    if (text.startsWith(expected)) right++;
    if (--left === 0) done(right);
    else connection.push(REQUEST);
  };
  const connection = new Duplex({
    read() {},
    write(chunk, _, callback) {
      callback();
      answered(chunk.latin1Slice(0, 16));
    },
    writev(chunks, callback) {
      callback();
      answered(chunks[0].chunk.latin1Slice(0, 16));
    },
  });
  connection.remoteAddress = "203.0.113.7";
  server.emit("connection", connection);
  return (requests) =>
    new Promise((resolve) => {
      left = requests;
      right = 0;
      done = resolve;
      connection.push(REQUEST);
    });
}
