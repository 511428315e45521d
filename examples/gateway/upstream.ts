/**
 * The demo's upstream: answers after a few milliseconds of simulated work. Runs as a
 * program, `node build/examples/gateway/upstream.js [port]`, or as a worker of the
 * demo, to which it posts its port.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { isMainThread, parentPort, workerData } from "node:worker_threads";

export interface DemoUpstream {
  /** 0 takes a free port. */
  port: number;
  workMs: number;
}

const { port, workMs }: DemoUpstream = isMainThread
  ? { port: Number(process.argv[2] ?? 9000), workMs: 10 }
  : workerData;

const server = createServer((request, response) => {
  request.resume();
  const answer = () => response.end(`hello ${request.headers["x-tenant"] ?? request.headers["x-forwarded-for"]}\n`);
  if (workMs > 0) setTimeout(answer, workMs);
  else answer();
});
server.listen(port, "127.0.0.1", () => {
  const { port: bound } = server.address() as AddressInfo;
  if (parentPort) parentPort.postMessage(bound);
  else console.log(`upstream on http://127.0.0.1:${bound}`);
});
