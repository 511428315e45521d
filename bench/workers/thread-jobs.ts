// What the threads of questions/threads.ts do, a chunk of decisions at a time:
// on keys of their own, on one key of their own, and on one key that all threads
// share, refused or admitted. Our threads use the table behind
// `context.handle`, or without one a table each.

import { perDay, Sluice, type SluiceHandle } from "sluice";
import { address, draws } from "../measure/addresses.js";
import { askKeys, askOneKey } from "../measure/loops.js";
import type { Ask, Policy } from "../rivals/rival.js";
import { bucketsIn, type SentMap } from "../rivals/sharedmap.js";
import type { Job, MakeJob, Ports } from "./crew-member.js";
import { askThrough, streamThrough } from "./message-port.js";

/** One policy that is never used up here, and one that soon is. */
export const policies: Record<"plenty" | "few", Policy> = {
  plenty: { rate: perDay(1), burst: 2 ** 31 - 1 },
  few: { rate: perDay(1), burst: 1000 },
};

/** Keys of each thread. */
export const KEYS = 10_000;
export const SHARED = "10.0.0.1";

export type Clock = "coarse" | "precise";

interface Context {
  handle?: SluiceHandle;
  clock?: Clock;
  plenty: SentMap;
  few: SentMap;
}

const CHUNK = 2000;
/** A question takes about 50 µs there and back. */
const SERIAL_CHUNK = 20;
const WINDOW = 256;
const BATCH = 1024;
const BATCHES_UNDER_WAY = 4;

export const order = draws(50 * CHUNK, KEYS);

/** The keys of thread `me` in the order to ask for them. */
function ownKeys(me: number): string[] {
  const keys = Array.from({ length: KEYS }, (_, i) => address((1 + me) * KEYS + i));
  return Array.from(order, (i) => keys[i]);
}

function inOrder(ask: Ask<string>, me: number, count = CHUNK, isAsync = false): Job {
  const loop = askKeys(ask, ownKeys(me), count, isAsync);
  let at = 0;
  const decide = (): ReturnType<typeof loop> => {
    const admitted = loop(at);
    at = (at + count) % order.length;
    return admitted;
  };
  return { decide, count };
}

function inTurn(ask: Ask<string>, key: string, count = CHUNK, isAsync = false): Job {
  return { decide: askOneKey(ask, key, count, isAsync), count };
}

// --- ours -----------------------------------------------------------------------

export function makeTable(clock: Clock): Sluice {
  const sluice = Sluice.create({ capacity: 100_000, clock });
  for (const [name, policy] of Object.entries(policies)) sluice.tokenBucket(name, policy);
  return sluice;
}

let own: Sluice | undefined;
function sluiceOf({ handle, clock = "precise" }: Context): Sluice {
  return handle ? Sluice.attach(handle) : (own ??= makeTable(clock));
}

const handleOn = (name: keyof typeof policies, key?: string): MakeJob<Context> => (context, me) => {
  const bucket = sluiceOf(context).limiter(name).key(key ?? me);
  const ask = (): boolean => bucket.allow();
  return inTurn(ask, SHARED);
};

const ours: Record<string, MakeJob<Context>> = {
  "own keys, strings": (context, me) => {
    const limiter = sluiceOf(context).limiter("plenty");
    return inOrder((key) => limiter.allow(key), me);
  },
  "own key, hot": handleOn("plenty"),
  "one key, refused": handleOn("few", SHARED),
  "one key, admitted": handleOn("plenty", SHARED),
};

// --- an owner thread, asked through a port ---------------------------------------

const countOf = (answer: boolean | Uint8Array): number =>
  typeof answer === "boolean" ? Number(answer) : answer.reduce((sum, is) => sum + is, 0);

/** Asks for the next `count` keys, one a message or `size` a message. */
function streamed(port: Ports[string], keys: string[], window: number, count: number, size?: number): Job {
  let at = 0;
  const decide = (): Promise<number> => {
    const end = at + count;
    const next = (): string | string[] | undefined => {
      if (at === end) return undefined;
      const from = at;
      at += size ?? 1;
      return size === undefined
        ? keys[from % keys.length]
        : Array.from({ length: size }, (_, i) => keys[(from + i) % keys.length]);
    };
    return streamThrough(port, window, next, countOf);
  };
  return { decide, count };
}

const throughPort: Record<string, MakeJob<Context>> = {
  "owner, serial: own keys, strings": (_, me, { serialPlenty }) =>
    inOrder(askThrough(serialPlenty), me, SERIAL_CHUNK, true),
  "owner, serial: one key, refused": (_, __, { serialFew }) =>
    inTurn(askThrough(serialFew), SHARED, SERIAL_CHUNK, true),
  "owner, pipelined: own keys, strings": (_, me, { plenty }) => streamed(plenty, ownKeys(me), WINDOW, CHUNK),
  "owner, pipelined: one key, refused": (_, __, { few }) => streamed(few, [SHARED], WINDOW, CHUNK),
  "owner, batches: own keys, strings": (_, me, { plenty }) =>
    streamed(plenty, ownKeys(me), BATCHES_UNDER_WAY, 8 * BATCH, BATCH),
};

// --- sharedmap --------------------------------------------------------------------

const inSharedMap: Record<string, MakeJob<Context>> = {
  "sharedmap: own keys, strings": ({ plenty }, me) => inOrder(bucketsIn(plenty, policies.plenty), me),
  "sharedmap: one key, refused": ({ few }) => inTurn(bucketsIn(few, policies.few), SHARED),
  "sharedmap: one key, admitted": ({ plenty }) => inTurn(bucketsIn(plenty, policies.plenty), SHARED),
};

export const jobs: Record<string, MakeJob<Context>> = { ...ours, ...throughPort, ...inSharedMap };
