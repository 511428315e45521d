/**
 * The compiled kernel: its surface, and that no lock is held across anything at
 * which V8 may terminate a worker.
 */
import binaryen from "binaryen";
import { readFileSync } from "node:fs";
import { ManualClock, Sluice } from "sluice";
import { describe, expect, it } from "vitest";
import { kernelBase64 } from "../../../src/engine/table/kernel-binary.js";
import { instantiate, kernelConstants } from "../../../src/engine/table/kernel.js";
import { acquisitions, functionsOf } from "../../threads/held-locks.js";

const release = readFileSync(new URL("../../../build/release.wasm", import.meta.url));

const FUNCTIONS = [
  "allowBatch",
  "allowGlobal",
  "allowGlobalByCell",
  "allowNumber",
  "allowSlot",
  "allowSlotByCell",
  "allowText",
  "allowWords",
  "append",
  "audit",
  "batchKey",
  "batchNumber",
  "batchText",
  "decide",
  "decideNumber",
  "decideText",
  "decideWords",
  "deposit",
  "enter",
  "giveBack",
  "keyChunk",
  "keyEnd",
  "keyOfBytes",
  "keyOfNumber",
  "keyOfWords",
  "leased",
  "lineSetsOffset",
  "publish",
  "readingOf",
  "recover",
  "rescaleDueAt",
  "setTokens",
  "setsOffset",
  "take",
  "takeBack",
  "takeNumber",
  "takeText",
  "untilDueAt",
  "walk",
];

interface Described {
  module?: string;
  name: string;
  kind: string;
}
const { Module } = WebAssembly as unknown as {
  Module: {
    new(bytes: Uint8Array): object;
    exports(module: object): Described[];
    imports(module: object): Described[];
    customSections(module: object, name: string): ArrayBuffer[];
  };
};

/** Section ids of the binary format (https://webassembly.github.io/spec/core/binary/modules.html). */
const SECTIONS = [
  "custom",
  "type",
  "import",
  "function",
  "table",
  "memory",
  "global",
  "export",
  "start",
  "element",
  "code",
  "data",
  "data count",
] as const;

/** Names of the sections that a binary has. */
function sectionsOf(bytes: Uint8Array): string[] {
  const found: string[] = [];
  for (let at = 8; at < bytes.length;) {
    found.push(SECTIONS[bytes[at++]]);
    let length = 0;
    for (let shift = 0;; shift += 7) {
      const byte = bytes[at++];
      length |= (byte & 127) << shift;
      if (byte < 128) break;
    }
    at += length;
  }
  return found;
}

function assembled(wat: string): Uint8Array {
  const module = binaryen.parseText(wat);
  module.setFeatures(binaryen.Features.All);
  const bytes = module.emitBinary();
  module.dispose();
  return bytes;
}

/** A binary as a list of instructions. */
function listing(bytes: Uint8Array): string {
  const module = binaryen.readBinary(bytes);
  const text = module.emitStackIR();
  module.dispose();
  return text;
}

describe("the compiled kernel", () => {
  it("is what the JavaScript build carries", () => {
    expect(kernelBase64).toBe(release.toString("base64"));
  });

  it("exports its functions and constants, nothing else", () => {
    const exported = Module.exports(new Module(release));
    expect(exported.filter(({ kind }) => kind === "function").map(({ name }) => name).sort()).toEqual(FUNCTIONS);
    expect(
      exported.filter(({ kind, name }) =>
        kind !== "function" && !(kind === "global" && /^[A-Z][A-Z0-9_]*$/.test(name))
      ),
    ).toEqual([]);
  });

  it("exports no mutable global", () => {
    const { exports } =
      new (WebAssembly.Instance as new(module: object, imports: object) => { exports: Record<string, unknown> })(
        new Module(release),
        { env: { memory: new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }) } },
      );
    for (const [name, each] of Object.entries(exports)) {
      if (typeof each === "function") continue;
      expect(() => {
        (each as { value: unknown }).value = 0;
      }, name).toThrow(TypeError);
    }
  });

  it("imports one memory, which is shared", () => {
    expect(Module.imports(new Module(release))).toEqual([{ module: "env", name: "memory", kind: "memory" }]);
    expect(listing(release)).toMatch(/\(import "env" "memory" \(memory [^()]* shared\)\)/);
  });

  it("has no start function, no table, and no data that would be written over a live table", () => {
    expect(sectionsOf(release).filter((section) => section !== "custom")).toEqual([
      "type",
      "import",
      "function",
      "global",
      "export",
      "code",
    ]);
    const loaded =
      "(module (import \"env\" \"memory\" (memory 1 1 shared)) (table 1 funcref) (func $f) (start $f) (elem (i32.const 0) $f) (data (i32.const 0) \"x\"))";
    expect(sectionsOf(assembled(loaded))).toEqual(expect.arrayContaining(["table", "start", "element", "data"]));
  });

  it("disturbs nothing when another instance of it joins a live table", () => {
    const sluice = Sluice.create({ capacity: 1000, clock: new ManualClock(1) });
    const limiter = sluice.tokenBucket("p", { rate: 0, burst: 3 });
    for (let i = 0; i < 500; i++) limiter.allow(`key ${i}`, 1 + (i % 3));
    const { memory } = sluice.handle;
    const bytes = Buffer.from(memory.buffer);
    const before = Buffer.from(bytes);

    const second = instantiate(memory as WebAssembly.Memory);
    expect(bytes.equals(before)).toBe(true);
    second.enter(5);
    expect(bytes.equals(before)).toBe(true);
    expect(sluice.audit()).toMatchObject({ clean: true, used: 500 });
    for (let i = 0; i < 500; i++) expect(limiter.peek(`key ${i}`).remaining).toBe(2 - (i % 3));
    sluice.close();
  });
});

describe("locks in the compiled kernel", () => {
  const functions = functionsOf(listing(release));

  it("are taken in few places, which are all found", () => {
    const { at } = kernelConstants();
    const all = functions.flatMap((each) => acquisitions(each));
    const locks = (isVersioned: boolean): string[] =>
      all.filter((each) => each.isVersioned === isVersioned).map(({ lock }) => lock.replace(/^\$\w+/, "x")).sort();
    // The table's list of policies, a stripe, a policy; and lines themselves.
    expect(locks(false)).toEqual([String(at.HEADER_POLICY_LOCK), "x+0", `x+${at.POLICY_LOCK}`]);
    expect(new Set(locks(true))).toEqual(new Set(["x+0"]));
    expect(locks(true).length).toBeGreaterThan(1);
    // Nothing else swaps an i32, except the two of `recover` that free a lock.
    expect(listing(release).match(/i32\.atomic\.rmw\.cmpxchg/g)).toHaveLength(all.length + 2);
    expect(listing(release)).not.toMatch(/atomic\.rmw(8|16|32)|i32\.atomic\.rmw\.(xchg|add|or|and|xor|sub)/);
  });

  it("are held over straight lines only", () => {
    const faults = functions.flatMap((each) => acquisitions(each)).flatMap(({ faults }) => faults);
    expect(faults).toEqual([]);
    for (const each of functions) for (const { held } of acquisitions(each)) expect(held).toBeGreaterThan(5);
  });
});

describe("the check on locks", () => {
  /** A function that takes the lock at `$lock`, does `body` while it holds it, and releases it. */
  const holding = (body: string, release = "(i32.atomic.store (local.get $lock) (i32.const 0))"): string =>
    `(module
    (import "env" "memory" (memory 1 1 shared))
    (func $other)
    (func $f (export "f") (param $lock i32) (param $owner i32) (param $n i32) (result i32)
      (if (i32.atomic.rmw.cmpxchg (local.get $lock) (i32.const 0) (local.get $owner))
        (then (call $other) (return (i32.const 1))))
      ${body}
      ${release}
      (i32.const 0)))`;

  function faultsOf(wat: string): string[] {
    const all = functionsOf(listing(assembled(wat))).flatMap((each) => acquisitions(each));
    expect(all.length).toBeGreaterThan(0);
    return all.flatMap(({ faults }) => faults);
  }

  /** The same for a line, whose lock word counts versions: `body` ends with the release. */
  const lining = (body: string): string =>
    `(module
    (import "env" "memory" (memory 1 1 shared))
    (func $other)
    (func (export "f") (param $line i32) (param $owner i32) (param $word i32) (result i32)
      (if
        (i32.ne
          (i32.atomic.rmw.cmpxchg (local.get $line) (local.get $word) (i32.or (local.get $word) (local.get $owner)))
          (local.get $word))
        (then (call $other) (return (i32.const 0))))
      (i32.store offset=4 (local.get $line) (local.get $owner))
      ${body}
      (i32.const 1)))`;

  const store = "(i32.store (local.get $lock) (local.get $n))";

  const sound: [string, string][] = [
    ["a straight line", holding(store)],
    [
      "branches that meet before the release",
      holding(
        `(block $out (br_if $out (local.get $n)) (if (i32.load (local.get $n)) (then ${store}) (else (br $out))) ${store})`,
      ),
    ],
    [
      "a call and a loop after the release",
      holding(
        store,
        "(i32.atomic.store (local.get $lock) (i32.const 0)) (call $other) (loop $l (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))",
      ),
    ],
    [
      "a release on each path",
      holding(`(if (local.get $n) (then (i32.atomic.store (local.get $lock) (i32.const 0)) (return (i32.const 2))))`),
    ],
    [
      "a line, whose version moves on",
      lining("(i32.atomic.store (local.get $line) (i32.add (local.get $word) (i32.const 64)))"),
    ],
    [
      "a line, compared the other way round",
      lining("(i32.atomic.store (local.get $line) (i32.add (local.get $word) (i32.const 64)))").replace(
        /\(i32\.ne (\(i32\.atomic.*\)\)) \(local\.get \$word\)\)/,
        "(i32.ne (local.get $word) $1)",
      ),
    ],
    [
      "a lock within a lock",
      holding(
        "(if (i32.eqz (i32.atomic.rmw.cmpxchg offset=8 (local.get $n) (i32.const 0) (local.get $owner))) (then (i32.atomic.store offset=8 (local.get $n) (i32.const 0))))",
      ),
    ],
    [
      "another try after a lock that was not taken",
      `(module
      (import "env" "memory" (memory 1 1 shared))
      (func $other)
      (func (export "f") (param $lock i32) (param $owner i32)
        (loop $again
          (if (i32.atomic.rmw.cmpxchg (local.get $lock) (i32.const 0) (local.get $owner))
            (then (call $other) (br $again)))
          ${store.replace("$n", "$owner")}
          (i32.atomic.store (local.get $lock) (i32.const 0)))))`,
    ],
    [
      "a lock that is taken when the answer is 0",
      `(module
      (import "env" "memory" (memory 1 1 shared))
      (func $other)
      (func (export "f") (param $lock i32) (param $owner i32)
        (if (i32.eqz (i32.atomic.rmw.cmpxchg offset=4 (local.get $lock) (i32.const 0) (local.get $owner)))
          (then
            (i32.store (local.get $lock) (local.get $owner))
            (i32.atomic.store offset=4 (local.get $lock) (i32.const 0)))
          (else (call $other)))))`,
    ],
  ];
  it.each(sound)("passes %s", (_, wat) => {
    expect(faultsOf(wat)).toEqual([]);
  });

  const unsound: [string, string, RegExp][] = [
    ["a loop", holding(`(loop $l ${store} (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))`), /loop/],
    ["a call", holding("(call $other)"), /call/],
    [
      "an indirect call",
      holding("(call_indirect (i32.const 0))").replace("(func $other)", "(table 1 funcref) (func $other)"),
      /call_indirect/,
    ],
    ["a call on one way only", holding(`(if (local.get $n) (then (call $other)) (else ${store}))`), /call/],
    ["a way out without a release", holding("(if (local.get $n) (then (return (i32.const 3))))"), /return/],
    ["no release at all", holding(store, ""), /end of the function/],
    [
      "a release of something else",
      holding(store, "(i32.atomic.store offset=4 (local.get $lock) (i32.const 0))"),
      /end of the function/,
    ],
    [
      "a release of another one",
      holding(store, "(i32.atomic.store (local.get $n) (i32.const 0))"),
      /end of the function/,
    ],
    ["a lock whose address is lost", holding("(local.set $lock (i32.const 8))"), /written over/],
    [
      "a lock that is swapped for what it does not say",
      holding("").replace("(i32.const 0) (local.get $owner)", "(local.get $n) (local.get $owner)"),
      /cannot follow/,
    ],
    [
      "a store to the lock that does not release it",
      holding(store, "(i32.atomic.store (local.get $lock) (i32.const 1))"),
      /end of the function/,
    ],
    [
      "a way back to a loop around it",
      `(module
      (import "env" "memory" (memory 1 1 shared))
      (func $other)
      (func (export "f") (param $lock i32) (param $owner i32)
        (loop $again
          (if (i32.atomic.rmw.cmpxchg (local.get $lock) (i32.const 0) (local.get $owner)) (then (call $other) (return)))
          (br_if $again (i32.load (local.get $owner)))
          (i32.atomic.store (local.get $lock) (i32.const 0)))))`,
      /back to/,
    ],
    ["a trap", holding("(if (local.get $n) (then (unreachable)))"), /unreachable/],
    ["a division, which traps", holding("(local.set $n (i32.div_u (local.get $n) (local.get $owner)))"), /div/],
    ["a memory that grows", holding("(drop (memory.grow (i32.const 1)))"), /memory.grow/],
    ["a wait", holding("(drop (memory.atomic.wait32 (local.get $lock) (i32.const 0) (i64.const 1)))"), /wait/],
    [
      "a lock within, on whose failure it is not released",
      holding(
        "(if (i32.atomic.rmw.cmpxchg offset=8 (local.get $n) (i32.const 0) (local.get $owner)) (then (return (i32.const 5))) (else (i32.atomic.store offset=8 (local.get $n) (i32.const 0))))",
      ),
      /return/,
    ],
    [
      "a version that does not move on",
      lining("(i32.atomic.store (local.get $line) (local.get $word))"),
      /end of the function/,
    ],
    [
      "a version that is lost",
      lining(
        "(local.set $word (i32.const 64)) (i32.atomic.store (local.get $line) (i32.add (local.get $word) (i32.const 64)))",
      ),
      /written over/,
    ],
    [
      "a call while a line is held",
      lining("(call $other) (i32.atomic.store (local.get $line) (i32.add (local.get $word) (i32.const 64)))"),
      /call/,
    ],
    [
      "a line that is taken when it is not",
      lining("(i32.atomic.store (local.get $line) (i32.add (local.get $word) (i32.const 64)))").replace(
        "i32.ne",
        "i32.eq",
      ),
      /call/,
    ],
    [
      "a lock whose answer is not tested",
      `(module
      (import "env" "memory" (memory 1 1 shared))
      (func (export "f") (param $lock i32) (param $owner i32)
        (drop (i32.atomic.rmw.cmpxchg (local.get $lock) (i32.const 0) (local.get $owner)))
        (i32.atomic.store (local.get $lock) (i32.const 0))))`,
      /cannot follow/,
    ],
  ];
  it.each(unsound)("refuses %s", (_, wat, fault) => {
    expect(faultsOf(wat).join()).toMatch(fault);
  });
});
