// Wrong arguments to everything public: the documented error or answer, and an
// unchanged table.
//
// Wrong values are RangeErrors, wrong types TypeErrors; the message names the
// option, what was expected, and what came.

import { every, type Limiter, ManualClock, perDay, perHour, perMinute, perSecond, Sluice, SluiceError } from "sluice";
import { beforeEach, describe, expect, it } from "vitest";
import { kernelConstants } from "../../../src/engine/table/kernel.js";

const { at, setsOffset } = kernelConstants();

/** Values that a caller might pass, by how a message shows them. */
const things: Record<string, unknown> = {
  NaN: NaN,
  Infinity: Infinity,
  "-Infinity": -Infinity,
  "-1": -1,
  "0": 0,
  "-0": -0,
  "0.5": 0.5,
  "1": 1,
  "2": 2,
  "1000": 1000,
  "2^31-1": 2 ** 31 - 1,
  "2^31": 2 ** 31,
  "2^32": 2 ** 32,
  "2^32+1": 2 ** 32 + 1,
  "2^53": 2 ** 53,
  "1e300": 1e300,
  "5e-324": 5e-324,
  "-0.5": -0.5,
  "3000000001": 3_000_000_001,
  "9e-10": 9e-10,
  "'1'": "1",
  "''": "",
  "'x'": "x",
  "a long string": "x".repeat(1000),
  "'\\ud800'": "\ud800",
  "1n": 1n,
  "-1n": -1n,
  null: null,
  undefined,
  true: true,
  false: false,
  "{}": {},
  "[]": [],
  "[1]": [1],
  "a symbol": Symbol("s"),
  "a function": () => 1,
  "a date": new Date(0),
  "an object without prototype": Object.create(null),
  "an object that says 1": { valueOf: () => 1, toString: () => "1" },
  "an object that throws": {
    valueOf() {
      throw new Error("valueOf was called");
    },
    toString() {
      throw new Error("toString was called");
    },
  },
  "a proxy": new Proxy({}, {
    get() {
      throw new Error("a property was read");
    },
  }),
  bytes: Uint8Array.of(1),
  doubles: Float64Array.of(1),
  "a buffer": new ArrayBuffer(1),
  "a map": new Map(),
  "a promise": Promise.resolve(),
  "an AbortSignal": new AbortController().signal,
  "a ManualClock": new ManualClock(),
};

type Verdict = "fine" | "value" | "type";
type Judge = (thing: unknown) => Verdict;

const number = (isRight: (n: number) => boolean): Judge =>
(
  thing,
) => (typeof thing !== "number" ? "type" : isRight(thing) ? "fine" : "value");
const optional = (judge: Judge): Judge => (thing) => (thing === undefined ? "fine" : judge(thing));
const integer = (least: number, most: number): Judge => number((n) => Number.isInteger(n) && n >= least && n <= most);

const COST = optional(integer(0, 2 ** 31 - 1));
const RATE = number((n) => n === 0 || n === Infinity || (n >= 1e-9 && n <= 3e9));
const BURST = integer(0, 2 ** 31 - 1);
const DURATION = optional(number((n) => n >= 0));
const TIME = number((n) => n >= 0 && n < Infinity);
const KEY: Judge = (thing) => {
  if (typeof thing === "string" || typeof thing === "bigint" || thing instanceof Uint8Array) return "fine";
  return typeof thing === "number" ? (Number.isFinite(thing) ? "fine" : "value") : "type";
};
/** An object without names that no option has. */
const OPTIONS = (thing: unknown): Verdict => {
  if (typeof thing !== "object" || thing === null || Array.isArray(thing)) return "type";
  for (const _ in thing) return "type";
  return "fine";
};
const SIGNAL = optional((thing) => (thing instanceof AbortSignal ? "fine" : "type"));
const NAME: Judge = (
  thing,
) => (typeof thing !== "string"
  ? "type"
  : thing.length > 0 && thing.length <= 96 && !/\p{Surrogate}/u.test(thing)
  ? "fine"
  : "value");
const CHOICE = (...choices: unknown[]): Judge =>
  optional((thing) => (choices.includes(thing) ? "fine" : typeof thing === "string" ? "value" : "type"));

let clock: ManualClock;
let sluice: Sluice;
let limiter: Limiter;

beforeEach(() => {
  clock = new ManualClock(1000);
  sluice = Sluice.create({ capacity: 50, clock, maxThreads: 2 });
  limiter = sluice.tokenBucket("test", { rate: 10, burst: 5 });
  sluice.fixedWindow("window", { limit: 5, windowMs: 1000 });
  for (const key of ["a", 1, 2n, Uint8Array.of(3)]) limiter.allow(key, 2);
  limiter.charge("debt", 50);
  limiter.global.allow(3);
});

/** What a wrong call must not change: policies, slots, counts, time. */
function state(): Record<string, unknown> {
  const bytes = Buffer.from(sluice.handle.memory.buffer);
  return {
    header: bytes.subarray(0, at.POLICIES).toString("hex"),
    policies: bytes.subarray(at.POLICIES, at.POLICIES + 4 * at.POLICY_BYTES).toString("hex"),
    sets: Buffer.from(bytes.subarray(setsOffset(2))).toString("base64"),
    stats: sluice.stats(),
    audit: sluice.audit(),
    nowMs: clock.nowMs,
  };
}

/** What a call throws or rejects with; undefined if it does neither. */
async function thrown(call: () => unknown): Promise<unknown> {
  try {
    await call();
    return undefined;
  } catch (error) {
    return error;
  }
}

/** Fails unless `call` fails as `verdict` says, names `option` and the value, and changes nothing. */
async function judge(
  verdict: Verdict,
  option: string,
  thing: unknown,
  what: string,
  call: () => unknown,
): Promise<void> {
  const before = state();
  const error = await thrown(call);
  if (verdict === "fine") {
    // A limit of the table, not of the argument, has a code.
    if (error !== undefined && !(error instanceof SluiceError) && (error as Error).message !== "a property was read") {
      throw new Error(`${what}: expected no error, got ${String(error)}`, { cause: error });
    }
    return;
  }
  // A value that throws when it is read throws its own error, before anything has changed.
  if ((error as Error | undefined)?.message === "a property was read") return expect(state(), what).toEqual(before);
  const expected = verdict === "type" ? TypeError : RangeError;
  if (!(error instanceof expected)) {
    throw new Error(`${what}: expected a ${expected.name}, got ${error === undefined ? "nothing" : String(error)}`, {
      cause: error,
    });
  }
  const { message } = error as Error;
  const namesUnknownOption = verdict === "type" && message.startsWith(`"${option}" has no option `);
  if (!namesUnknownOption && !(message.startsWith(`"${option}" expected `) && /, got \S/.test(message))) {
    throw new Error(`${what}: the message is ${message}`);
  }
  if (typeof thing === "number" && !message.endsWith(`got ${thing}`)) {
    throw new Error(`${what}: the message does not say that it got ${thing}: ${message}`);
  }
  if (message.length > 250 || message.includes("\n")) throw new Error(`${what}: the message is long: ${message}`);
  expect(state(), what).toEqual(before);
}

/** Public arguments: their names, what is right, and the calls that take them. */
const arguments_: [option: string, right: Judge, calls: Record<string, (thing: never) => unknown>][] = [
  ["cost", COST, {
    "allow(key, cost)": (cost) => limiter.allow("a", cost),
    "allow(number, cost)": (cost) => limiter.allow(1, cost),
    "global.consume(cost)": (cost) => limiter.global.consume(cost),
    "consume(key, cost)": (cost) => limiter.consume("a", cost),
    "peek(key, cost)": (cost) => limiter.peek("a", cost),
    "allowMany(keys, cost)": (cost) => limiter.allowMany(["a"], cost),
    "reserve(key, cost)": (cost) => limiter.reserve("a", cost),
    "wait(key, cost)": (cost) => limiter.wait("a", cost, { timeoutMs: 0 }),
    "waitSync(key, cost)": (cost) => limiter.waitSync("a", cost),
    "refund(key, cost)": (cost) => limiter.refund("a", cost),
    "charge(key, cost)": (cost) => limiter.charge("a", cost),
    "key().allow(cost)": (cost) => limiter.key("a").allow(cost),
    "key().consume(cost)": (cost) => limiter.key("a").consume(cost),
    "key().peek(cost)": (cost) => limiter.key("a").peek(cost),
    "key().reserve(cost)": (cost) => limiter.key("a").reserve(cost),
    "key().wait(cost)": (cost) => limiter.key("a").wait(cost, { timeoutMs: 0 }),
    "key().waitSync(cost)": (cost) => limiter.key("a").waitSync(cost),
    "key().refund(cost)": (cost) => limiter.key("a").refund(cost),
    "key().charge(cost)": (cost) => limiter.key("a").charge(cost),
    "global.allow(cost)": (cost) => limiter.global.allow(cost),
  }],
  ["key", KEY, {
    "allow(key)": (key) => limiter.allow(key),
    "consume(key)": (key) => limiter.consume(key),
    "peek(key)": (key) => limiter.peek(key),
    "reserve(key)": (key) => limiter.reserve(key),
    "wait(key)": (key) => limiter.wait(key, 1, { timeoutMs: 0 }),
    "waitSync(key)": (key) => limiter.waitSync(key),
    "refund(key)": (key) => limiter.refund(key),
    "charge(key)": (key) => limiter.charge(key),
    "reset(key)": (key) => limiter.reset(key),
    "key(key)": (key) => limiter.key(key),
    "allowMany([key])": (key) => limiter.allowMany([key]),
    "all([[limiter, key]])": (key) => sluice.all([[limiter, key]]),
    "reserveAll([[limiter, key]])": (key) => sluice.reserveAll([[limiter, key]]),
    "waitAll([[limiter, key]])": (key) => sluice.waitAll([[limiter, key]], { timeoutMs: 0 }),
  }],
  ["rate", RATE, {
    "setRate(rate)": (rate) => limiter.setRate(rate),
    "tokenBucket({ rate })": (rate) => sluice.tokenBucket(`new ${counter++}`, { rate, burst: 1 }),
  }],
  ["burst", BURST, {
    "setBurst(burst)": (burst) => limiter.setBurst(burst),
    "tokenBucket({ burst })": (burst) => sluice.tokenBucket(`new ${counter++}`, { rate: 1, burst }),
  }],
  ["limit", BURST, {
    "setLimit(limit)": (limit) => sluice.limiter("window").setLimit(limit),
    "fixedWindow({ limit })": (limit) => sluice.fixedWindow(`new ${counter++}`, { limit, windowMs: 1000 }),
  }],
  ["maxWaitMs", DURATION, {
    "reserve(key, 1, { maxWaitMs })": (maxWaitMs) => limiter.reserve("debt", 1, { maxWaitMs }),
    "reserveAll(entries, { maxWaitMs })": (maxWaitMs) => sluice.reserveAll([[limiter, "debt"]], { maxWaitMs }),
    "key().reserve(1, { maxWaitMs })": (maxWaitMs) => limiter.key("debt").reserve(1, { maxWaitMs }),
  }],
  ["timeoutMs", DURATION, {
    "wait(key, 0, { timeoutMs })": (timeoutMs) => limiter.wait("a", 0, { timeoutMs }),
    "key().wait(0, { timeoutMs })": (timeoutMs) => limiter.key("a").wait(0, { timeoutMs }),
    "waitAll(entries, { timeoutMs })": (timeoutMs) => sluice.waitAll([[limiter, "a", 0]], { timeoutMs }),
    "waitSync(key, 1, { timeoutMs })": (timeoutMs) => limiter.waitSync("a", 1, { timeoutMs }),
    "key().waitSync(1, { timeoutMs })": (timeoutMs) => limiter.key("a").waitSync(1, { timeoutMs }),
  }],
  ["maxWaiters", optional(number((n) => n === Infinity || (Number.isSafeInteger(n) && n >= 0))), {
    "wait(key, 0, { maxWaiters })": (maxWaiters) => limiter.wait("a", 0, { maxWaiters }),
    "key().wait(0, { maxWaiters })": (maxWaiters) => limiter.key("a").wait(0, { maxWaiters }),
  }],
  ["signal", SIGNAL, {
    "waitAll(entries, { signal })": (signal) => sluice.waitAll([[limiter, "a", 0]], { signal }),
    "wait(key, 0, { signal })": (signal) => limiter.wait("a", 0, { signal }),
    "key().wait(0, { signal })": (signal) => limiter.key("a").wait(0, { signal }),
  }],
  ["options", optional(OPTIONS), {
    "reserveAll(entries, options)": (options) => sluice.reserveAll([[limiter, "a"]], options),
    "waitAll(entries, options)": (options) => sluice.waitAll([[limiter, "a", 0]], options),
    "reserve(key, 1, options)": (options) => limiter.reserve("a", 1, options),
    "wait(key, 0, options)": (options) => limiter.wait("a", 0, options),
    "waitSync(key, 1, options)": (options) => limiter.waitSync("a", 1, options),
    "key().reserve(1, options)": (options) => limiter.key("a").reserve(1, options),
    "key().wait(0, options)": (options) => limiter.key("a").wait(0, options),
    "key().waitSync(1, options)": (options) => limiter.key("a").waitSync(1, options),
  }],
  ["name", NAME, {
    "tokenBucket(name)": (name) => sluice.tokenBucket(name, { rate: 1, burst: 1 }),
    "limiter(name)": (name) => sluice.limiter(name),
  }],
  ["capacity", integer(1, 100_000_000), { "create({ capacity })": (capacity) => created({ capacity, maxThreads: 1 }) }],
  ["maxThreads", optional(integer(1, 1024)), {
    "create({ maxThreads })": (maxThreads) => created({ capacity: 1, maxThreads }),
  }],
  ["lineCapacity", optional(integer(1, 10_000_000)), {
    "create({ lineCapacity })": (lineCapacity) => created({ capacity: 1, maxThreads: 1, lineCapacity }),
  }],
  ["whenFull", CHOICE("evict", "deny", "allow"), {
    "create({ whenFull })": (whenFull) => created({ capacity: 1, maxThreads: 1, whenFull }),
  }],
  ["clock", (thing) => (thing instanceof ManualClock ? "fine" : CHOICE("precise", "coarse")(thing)), {
    "create({ clock })": (given) => created({ capacity: 1, maxThreads: 1, clock: given }),
  }],
  ["startMs", optional(TIME), { "new ManualClock(startMs)": (startMs) => new ManualClock(startMs) }],
  ["ms", TIME, { "ManualClock.set(ms)": (ms) => clock.set(ms) }],
  ["ms", number((n) => n >= 0 && n < Infinity), { "ManualClock.advance(ms)": (ms) => clock.advance(ms) }],
  ["tokens", number((n) => n >= 0), {
    "perSecond(tokens)": perSecond,
    "perMinute(tokens)": perMinute,
    "perHour(tokens)": perHour,
    "perDay(tokens)": perDay,
  }],
  ["intervalMs", number((n) => n >= 0), { "every(intervalMs)": every }],
];

let counter = 0;

/** Makes a table only if it is small: right options are tested elsewhere. */
function created(options: Parameters<typeof Sluice.create>[0]): void {
  const { capacity, maxThreads = 1, lineCapacity = 1 } = options;
  if (
    [capacity, maxThreads, lineCapacity].every((n) => typeof n === "number")
    && (capacity > 10_000 || maxThreads > 64 || lineCapacity > 10_000)
  ) {
    if (
      Number.isInteger(capacity) && capacity <= 100_000_000 && Number.isInteger(maxThreads) && maxThreads <= 1024
      && Number.isInteger(lineCapacity) && lineCapacity <= 10_000_000
    ) return;
  }
  Sluice.create(options).close();
}

describe.each(
  arguments_.flatMap(([option, right, calls]) =>
    Object.entries(calls).map(([call, take]) => [call, option, right, take] as const)
  ),
)("%s", (call, option, right, take) => {
  it("accepts right values, and reports wrong ones without changing anything", async () => {
    const failures: string[] = [];
    let wrong = 0;
    for (const [name, thing] of Object.entries(things)) {
      const verdict = right(thing);
      if (verdict !== "fine") wrong++;
      try {
        await judge(verdict, option, thing, `${call} of ${name}`, () => take(thing as never));
      } catch (error) {
        failures.push((error as Error).message);
      }
    }
    expect(failures.slice(0, 5), `${failures.length} failures`).toEqual([]);
    expect(wrong).toBeGreaterThan(10);
    expect(sluice.audit()).toMatchObject({ clean: true });
  });
});

describe("options that are missing or of a wrong type", () => {
  const calls: [string, string, () => unknown][] = [
    ["create()", "options", () => (Sluice.create as () => unknown)()],
    ["create(null)", "options", () => Sluice.create(null as never)],
    ["create('100')", "options", () => Sluice.create("100" as never)],
    ["create({})", "capacity", () => Sluice.create({} as never)],
    ["tokenBucket(name)", "options", () => (sluice.tokenBucket as (name: string) => unknown)("x")],
    ["tokenBucket(name, null)", "options", () => sluice.tokenBucket("x", null as never)],
    ["tokenBucket(name, {})", "rate", () => sluice.tokenBucket("x", {} as never)],
    ["tokenBucket(name, { rate })", "burst", () => sluice.tokenBucket("x", { rate: 1 } as never)],
    ["tokenBucket()", "options", () => (sluice.tokenBucket as () => unknown)()],
    ["limiter()", "name", () => (sluice.limiter as () => unknown)()],
    ["setRate()", "rate", () => (limiter.setRate as () => unknown)()],
    ["setBurst()", "burst", () => (limiter.setBurst as () => unknown)()],
    ["allowMany()", "keys", () => (limiter.allowMany as () => unknown)()],
    ["set()", "ms", () => (clock.set as () => unknown)()],
    ["advance()", "ms", () => (clock.advance as () => unknown)()],
    ["perSecond()", "tokens", () => (perSecond as () => unknown)()],
    ["every()", "intervalMs", () => (every as () => unknown)()],
    ["attach()", "handle", () => (Sluice.attach as () => unknown)()],
  ];
  it.each(calls)("%s is a TypeError about \"%s\"", async (what, option, call) => {
    // Methods are taken off their objects above only to call them without arguments.
    const bound: Record<string, () => unknown> = {
      "tokenBucket(name)": () => sluice.tokenBucket.call(sluice, "x", undefined as never),
      "tokenBucket()": () => sluice.tokenBucket.call(sluice, undefined as never, undefined as never),
      "limiter()": () => sluice.limiter.call(sluice, undefined as never),
      "setRate()": () => limiter.setRate.call(limiter, undefined as never),
      "setBurst()": () => limiter.setBurst.call(limiter, undefined as never),
      "allowMany()": () => limiter.allowMany.call(limiter, undefined as never),
      "set()": () => clock.set.call(clock, undefined as never),
      "advance()": () => clock.advance.call(clock, undefined as never),
    };
    await judge("type", option, undefined, what, bound[what] ?? call);
  });
});

describe("a batch", () => {
  it("of anything but an array of keys is a TypeError", async () => {
    for (
      const keys of [
        null,
        undefined,
        5,
        "abc",
        true,
        Symbol("s"),
        () => 1,
        {},
        { length: "1" },
        { length: -1 },
        { length: 0.5 },
        { length: NaN },
        { length: 2 ** 53 },
        new Map(),
      ]
    ) {
      await judge("type", "keys", keys, `allowMany(${String(keys)})`, () => limiter.allowMany(keys as never));
    }
  });

  it("with an output of a wrong type, or too short, takes nothing", async () => {
    for (const out of [null, 5, [], {}, "x", new Uint16Array(3), new ArrayBuffer(3), new Int8Array(3)]) {
      await judge("type", "out", out, "allowMany", () => limiter.allowMany(["a", "b"], 1, out as never));
    }
    await judge(
      "value",
      "out",
      new Uint8Array(1),
      "allowMany",
      () => limiter.allowMany(["a", "b"], 1, new Uint8Array(1)),
    );
    await judge("value", "cost", -1, "allowMany", () => limiter.allowMany(["a", "b"], -1, new Uint8Array(2)));
  });

  it("with a wrong key among others reports it, wherever it is", async () => {
    for (
      const key of [
        null,
        undefined,
        {},
        [],
        true,
        () => 1,
        Symbol("s"),
        { length: 1 },
        { length: Infinity },
        Float64Array.of(1),
      ]
    ) {
      for (const [i, length] of [[0, 1], [0, 3], [40, 41], [31, 64]]) {
        const keys: unknown[] = Array.from({ length }, (_, i) => `new ${i}`);
        keys[i] = key;
        expect(() => limiter.allowMany(keys as never, 0), `${String(key)} at ${i}`).toThrow(TypeError);
        expect(() => limiter.allowMany(keys as never, 0), `${String(key)} at ${i}`).toThrow(/^"key" expected /);
      }
    }
    for (const key of [NaN, Infinity, -Infinity]) {
      await judge("value", "key", key, "allowMany", () => limiter.allowMany([key]));
    }
  });
});

describe("a handle", () => {
  it("of a wrong type is a TypeError", async () => {
    const { handle } = sluice;
    for (
      const wrong of [
        null,
        undefined,
        5,
        "x",
        true,
        [],
        {},
        { sluice: handle.sluice },
        { memory: null },
        { memory: {} },
        { memory: new SharedArrayBuffer(10) },
        { memory: handle.memory.buffer },
        () => handle,
        Symbol("s"),
      ]
    ) {
      await judge("type", "handle", wrong, "attach", () => Sluice.attach(wrong as never));
    }
  });

  it("of a memory without a table, or of another version, is reported", () => {
    const { handle } = sluice;
    const strange = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
    expect(() => Sluice.attach({ sluice: handle.sluice, memory: strange })).toThrow(
      expect.objectContaining({ code: "ERR_SLUICE_LAYOUT" }),
    );
    for (const version of [undefined, 0, handle.sluice + 1, "1", null]) {
      expect(() => Sluice.attach({ ...handle, sluice: version as never })).toThrow(
        expect.objectContaining({ code: "ERR_SLUICE_LAYOUT" }),
      );
    }
    expect(sluice.stats().threads).toBe(1);
    expect(sluice.audit().clean).toBe(true);
  });
});

describe("the check of this file", () => {
  it("notices a call that throws nothing, throws a wrong error, or changes something", async () => {
    const wrong = (option: string, thing: unknown, call: () => unknown): Promise<string> =>
      judge("value", option, thing, "it", call).then(() => "nothing", (error: Error) => error.message.split("\n")[0]);
    expect(await wrong("cost", -1, () => {})).toBe("it: expected a RangeError, got nothing");
    expect(
      await wrong("cost", -1, () => {
        throw new TypeError("\"cost\" expected 1, got -1");
      }),
    ).toContain("expected a RangeError, got TypeError");
    expect(
      await wrong("cost", -1, () => {
        throw new RangeError("no");
      }),
    ).toBe("it: the message is no");
    expect(
      await wrong("cost", -1, () => {
        throw new RangeError("\"cost\" expected 1, got -2");
      }),
    ).toContain("does not say that it got -1");
    expect(
      await wrong("cost", -1, () => {
        throw new RangeError(`"cost" expected ${"1".repeat(300)}, got -1`);
      }),
    ).toContain("the message is long");
    expect(
      await wrong("cost", -1, () => {
        limiter.allow("a");
        throw new RangeError("\"cost\" expected 1, got -1");
      }),
    ).toContain("to deeply equal");
    expect(
      await wrong("cost", -1, () => {
        throw new RangeError("\"cost\" expected 1, got -1");
      }),
    ).toBe("nothing");
    await expect(judge("fine", "cost", 1, "it", () => {
      throw new TypeError("x");
    })).rejects.toThrow("expected no error");
  });
});
