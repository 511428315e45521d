// A thread that owns all the buckets, and other threads that ask it by messages:
// how threads share limits without shared memory. The owner decides with the
// plain Map. Answers come in the order of the questions, so neither carries a
// number.

import { MessageChannel, type MessagePort, parentPort, Worker, workerData } from "node:worker_threads";
import { rival as map } from "../rivals/map.js";
import type { Key, Policy } from "../rivals/rival.js";

export interface Owner {
  /** A port for one asking thread. */
  open(): MessagePort;
  close(): Promise<number>;
}

/** Starts the owner of the buckets of one policy. */
export async function startOwner(policy: Policy): Promise<Owner> {
  const owner = new Worker(new URL(import.meta.url), { workerData: { ownedPolicy: policy } });
  await new Promise((resolve, reject) => owner.once("message", resolve).once("error", reject));
  return {
    open() {
      const { port1, port2 } = new MessageChannel();
      owner.postMessage(port1, [port1]);
      return port2;
    },
    close: () => owner.terminate(),
  };
}

/** Asks through a port: one promise a key, as one would write it. */
export function askThrough(port: MessagePort): (key: Key) => Promise<boolean> {
  const waiting: ((answer: boolean) => void)[] = [];
  port.on("message", (answer: boolean) => waiting.shift()!(answer));
  return (key) =>
    new Promise((resolve) => {
      waiting.push(resolve);
      port.postMessage(key);
    });
}

/**
 * Asks through a port with up to `window` questions under way, none of which
 * costs a promise. `next()` returns the next question, undefined after the last.
 * Resolves to the sum of `count(answer)`.
 */
export function streamThrough<Q, A>(
  port: MessagePort,
  window: number,
  next: () => Q | undefined,
  count: (answer: A) => number,
): Promise<number> {
  return new Promise((resolve) => {
    let underWay = 0;
    let sum = 0;
    const send = (): void => {
      const question = next();
      if (question === undefined) return;
      underWay++;
      port.postMessage(question);
    };
    const receive = (answer: A): void => {
      underWay--;
      sum += count(answer);
      send();
      if (underWay > 0) return;
      port.off("message", receive);
      resolve(sum);
    };
    port.on("message", receive);
    for (let i = 0; i < window; i++) send();
  });
}

/** The owner thread. */
function own(policy: Policy): void {
  const { ask } = map.make({ ...policy, capacity: 0 });
  const answer = (question: Key | Key[]): unknown =>
    Array.isArray(question) ? Uint8Array.from(question, (key) => Number(ask(key))) : ask(question);
  parentPort!.on(
    "message",
    (port: MessagePort) => port.on("message", (question: Key | Key[]) => port.postMessage(answer(question))),
  );
  parentPort!.postMessage("ready");
}

const { ownedPolicy } = (workerData ?? {}) as { ownedPolicy?: Policy };
if (ownedPolicy) own(ownedPolicy);
