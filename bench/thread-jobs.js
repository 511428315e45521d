// What the threads of questions/threads.js do, each a chunk of decisions at a
// time: on keys of their own, on one key of their own, and on one key that is
// everybody's, which is refused or admitted. Ours at the table behind
// `context.handle`, or without one each at a table of its own; and rivals.

import { perDay, Sluice } from "sluice";
import { address, draws } from "./addresses.js";
import { askKeys, askOneKey } from "./loops.js";
import { askThrough, streamThrough } from "./rivals/message-port.js";
import { bucketsIn } from "./rivals/sharedmap.js";

/** What each of the limiters allows: never used up here, and soon used up. */
export const policies = {
  plenty: { rate: perDay(1), burst: 2 ** 31 - 1 },
  few: { rate: perDay(1), burst: 1000 },
};

/** Keys of each thread. */
export const KEYS = 10_000;
export const SHARED = "10.0.0.1";

const CHUNK = 2000;
/** A question takes some 50 µs there and back. */
const SERIAL_CHUNK = 20;
const WINDOW = 256;
const BATCH = 1024;
const BATCHES_ON_THE_WAY = 4;

export const order = draws(50 * CHUNK, KEYS);

/** The keys of thread `me` in the order to ask for them. */
function ownKeys(me) {
  const keys = Array.from({ length: KEYS }, (_, i) => address((1 + me) * KEYS + i));
  return Array.from(order, (i) => keys[i]);
}

function inOrder(ask, me, count = CHUNK, isAsync = false) {
  const loop = askKeys(ask, ownKeys(me), count, isAsync);
  let at = 0;
  const decide = () => {
    const admitted = loop(at);
    at = (at + count) % order.length;
    return admitted;
  };
  return { decide, count };
}

const inTurn = (ask, key, count = CHUNK, isAsync = false) => ({ decide: askOneKey(ask, key, count, isAsync), count });

// --- ours -----------------------------------------------------------------------

export function makeTable(clock) {
  const sluice = Sluice.create({ capacity: 100_000, clock });
  for (const [name, policy] of Object.entries(policies)) sluice.tokenBucket(name, policy);
  return sluice;
}

let own;
const sluiceOf = ({ handle, clock }) => (handle ? Sluice.attach(handle) : (own ??= makeTable(clock)));
const handleOn = (name, key) => (context, me) => {
  const bucket = sluiceOf(context).limiter(name).key(key ?? me);
  return inTurn(() => bucket.allow());
};

const ours = {
  "own keys, strings": (context, me) => {
    const limiter = sluiceOf(context).limiter("plenty");
    return inOrder((key) => limiter.allow(key), me);
  },
  "own key, hot": handleOn("plenty"),
  "one key, refused": handleOn("few", SHARED),
  "one key, admitted": handleOn("plenty", SHARED),
};

// --- an owner thread, asked through a port ---------------------------------------

const countOf = (answer) => (typeof answer === "boolean" ? +answer : answer.reduce((sum, is) => sum + is, 0));

/** Asks for the next `count` keys, `size` a message if it is given. */
function streamed(port, keys, window, count, size) {
  let at = 0;
  const decide = () => {
    const end = at + count;
    const next = () => {
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

const throughPort = {
  "owner, serial: own keys, strings": (_, me, { serialPlenty }) =>
    inOrder(askThrough(serialPlenty), me, SERIAL_CHUNK, true),
  "owner, serial: one key, refused": (_, me, { serialFew }) =>
    inTurn(askThrough(serialFew), SHARED, SERIAL_CHUNK, true),
  "owner, pipelined: own keys, strings": (_, me, { plenty }) => streamed(plenty, ownKeys(me), WINDOW, CHUNK),
  "owner, pipelined: one key, refused": (_, me, { few }) => streamed(few, [SHARED], WINDOW, CHUNK),
  "owner, batches: own keys, strings": (_, me, { plenty }) =>
    streamed(plenty, ownKeys(me), BATCHES_ON_THE_WAY, 8 * BATCH, BATCH),
};

// --- sharedmap --------------------------------------------------------------------

const inSharedMap = {
  "sharedmap: own keys, strings": ({ plenty }, me) => inOrder(bucketsIn(plenty, policies.plenty), me),
  "sharedmap: one key, refused": ({ few }) => inTurn(bucketsIn(few, policies.few), SHARED),
  "sharedmap: one key, admitted": ({ plenty }) => inTurn(bucketsIn(plenty, policies.plenty), SHARED),
};

export const jobs = { ...ours, ...throughPort, ...inSharedMap };
