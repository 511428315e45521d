/**
 * The demo's upstream: answers after some milliseconds of what stands for work.
 * As a program, `node examples/gateway/upstream.js [port]`, or as a worker of
 * the demo, to which it posts its port.
 */
import { createServer } from "node:http";
import { isMainThread, parentPort, workerData } from "node:worker_threads";

const { port, workMs } = isMainThread ? { port: Number(process.argv[2] ?? 9000), workMs: 10 } : workerData;

const server = createServer((request, response) => {
  request.resume();
  const answer = () => response.end(`hello ${request.headers["x-tenant"] ?? request.headers["x-forwarded-for"]}\n`);
  if (workMs > 0) setTimeout(answer, workMs);
  else answer();
});
server.listen(port, "127.0.0.1", () => {
  if (isMainThread) console.log(`the upstream listens on http://127.0.0.1:${server.address().port}`);
  else parentPort.postMessage(server.address().port);
});
