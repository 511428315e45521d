// A thread that owns all buckets, and others that ask it by messages: how one
// shares limits between threads without shared memory. The owner decides with
// the bare Map. Answers come in the order of the questions, so neither carries
// a number.

import { MessageChannel, parentPort, Worker, workerData } from "node:worker_threads";
import { rival as map } from "./map.js";

/** Starts the owner of the buckets of one policy. */
export async function startOwner(policy) {
  const owner = new Worker(new URL(import.meta.url), { workerData: { ownedPolicy: policy } });
  await new Promise((resolve, reject) => owner.once("message", resolve).once("error", reject));
  return {
    /** A port for one asking thread. */
    open() {
      const { port1, port2 } = new MessageChannel();
      owner.postMessage(port1, [port1]);
      return port2;
    },
    close: () => owner.terminate(),
  };
}

/** Asks through a port: a promise a key, as one would write it. */
export function askThrough(port) {
  const waiting = [];
  port.on("message", (answer) => waiting.shift()(answer));
  return (key) =>
    new Promise((resolve) => {
      waiting.push(resolve);
      port.postMessage(key);
    });
}

/**
 * Asks through a port with up to `window` questions on the way, none of which
 * costs a promise. `next()` is the next question, undefined when there are no
 * more; resolves to what `count(answer)` adds up to.
 */
export function streamThrough(port, window, next, count) {
  return new Promise((resolve) => {
    let onTheWay = 0;
    let sum = 0;
    const send = () => {
      const question = next();
      if (question === undefined) return;
      onTheWay++;
      port.postMessage(question);
    };
    const receive = (answer) => {
      onTheWay--;
      sum += count(answer);
      send();
      if (onTheWay > 0) return;
      port.off("message", receive);
      resolve(sum);
    };
    port.on("message", receive);
    for (let i = 0; i < window; i++) send();
  });
}

function own(policy) {
  const { ask } = map.make(policy);
  const answer = (question) => (Array.isArray(question) ? Uint8Array.from(question, ask) : ask(question));
  parentPort.on("message", (port) => port.on("message", (question) => port.postMessage(answer(question))));
  parentPort.postMessage("ready");
}

if (workerData?.ownedPolicy) own(workerData.ownedPolicy);
