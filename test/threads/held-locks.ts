// A check on compiled Wasm: from taking a lock to releasing it, on every path
// through the function, there is nothing at which V8 may terminate a worker.
//
// It reads the stack listing that Binaryen writes, one instruction a line, and
// follows control flow from each swap that takes a lock. It refuses what it does
// not understand. A lock within a lock is followed separately.

export interface Instruction {
  op: string;
  /** The label that it opens or jumps to; else what follows the name. */
  operands: string;
  /** For a structure: where its `end` is; for an `if`, where its `else` is. */
  end?: number;
  else?: number;
}

export interface Acquisition {
  function: string;
  /** Address of the lock: a constant, or a local and an offset from it. */
  lock: string;
  /** True for a lock word that contains a version while it is free. */
  isVersioned: boolean;
  /** Instructions that run while the lock is held. */
  held: number;
  faults: string[];
}

export interface WasmFunction {
  name: string;
  code: Instruction[];
  /** Which structures enclose each instruction, outermost first: places of their openings. */
  around: number[][];
}

const opens = (op: string): boolean => op === "block" || op === "loop" || op === "if" || op === "try_table";

/** The functions of a listing. */
export function functionsOf(listing: string): WasmFunction[] {
  const functions: WasmFunction[] = [];
  let code: Instruction[] | undefined;
  for (const line of listing.split("\n")) {
    const header = /^ \(func (\$\S+)/.exec(line);
    if (header) {
      code = [];
      functions.push({ name: header[1], code, around: [] });
    } else if (line === " )") {
      code = undefined;
    } else if (code && !/^ *(\(local |;;)/.test(line)) {
      const [, op, operands] = /^ *(\S+) ?(.*)$/.exec(line)!;
      code.push({ op, operands });
    }
  }
  for (const each of functions) nest(each);
  return functions;
}

/** Finds the ends of structures. */
function nest({ name, code, around }: WasmFunction): void {
  const open: number[] = [];
  code.forEach(({ op }, i) => {
    if (op === "else") code[open.at(-1)!].else = i;
    if (op === "end") code[open.pop()!].end = i;
    around.push([...open]);
    if (opens(op)) open.push(i);
  });
  if (open.length > 0) throw new Error(`${name}: ${open.length} structures without an end`);
}

/** How many operands an instruction takes that leaves one value; undefined for all others. */
function arity(op: string): 0 | 1 | 2 | undefined {
  if (/^(local\.get|global\.get|i32\.const|i64\.const)$/.test(op)) return 0;
  if (
    /^(local\.tee|i32\.eqz|i32\.wrap_i64|i64\.extend_i32_[su]|i(32|64)\.(atomic\.)?load(8|16|32)?(_[su])?)$/.test(op)
  ) return 1;
  return /^i(32|64)\.(add|sub|mul|and|or|xor|shl|shr_[su])$/.test(op) ? 2 : undefined;
}

/** Where the expression that ends at `end` begins; undefined if that is not known. */
function beginningOf(code: Instruction[], end: number): number | undefined {
  let missing = 1;
  for (let i = end; i >= 0; i--) {
    const takes = arity(code[i].op);
    if (takes === undefined) return undefined;
    missing += takes - 1;
    if (missing === 0) return i;
  }
  return undefined;
}

/** The operands of the instruction at `i`, the last first: their instructions. */
function operandsOf(code: Instruction[], i: number, count: number): Instruction[][] | undefined {
  const all: Instruction[][] = [];
  for (let end = i - 1; all.length < count;) {
    const begin = beginningOf(code, end);
    if (begin === undefined) return undefined;
    all.push(code.slice(begin, end + 1));
    end = begin - 1;
  }
  return all;
}

/** The address of an access: a constant, or a local and an offset from it. Undefined if it is anything else. */
function addressOf(base: Instruction[], access: Instruction): string | undefined {
  const { op, operands } = base.at(-1)!;
  const offset = Number(/offset=(\d+)/.exec(access.operands)?.[1] ?? 0);
  if (op === "i32.const") return String(Number(operands) + offset);
  return op === "local.get" || op === "local.tee" ? `${operands}+${offset}` : undefined;
}

const text = (instructions: Instruction[]): string =>
  instructions.map(({ op, operands }) => `${op} ${operands}`.trim().replace(/^local\.tee/, "local.get")).join(" ");
const isZero = (instructions: Instruction[]): boolean => text(instructions) === "i32.const 0";

const forbidden = new Map<string, string>([
  ...[
    "loop",
    "call",
    "call_indirect",
    "call_ref",
    "return_call",
    "return_call_indirect",
    "return_call_ref",
    "unreachable",
    "memory.grow",
    "throw",
    "throw_ref",
    "return",
    "br_table",
    "try_table",
    "memory.atomic.wait32",
    "memory.atomic.wait64",
    "memory.atomic.notify",
  ].map((op) => [op, op] as const),
  ...["i32", "i64"].flatMap((type) =>
    ["div_s", "div_u", "rem_s", "rem_u", "trunc_f32_s", "trunc_f32_u", "trunc_f64_s", "trunc_f64_u"].map((op) =>
      [`${type}.${op}`, `${type}.${op}, which may trap`] as const
    )
  ),
]);

/** Every swap in a function that takes a lock, with what is wrong while it is held. A swap for 0 releases one. */
export function acquisitions(wasm: WasmFunction): Acquisition[] {
  const all: Acquisition[] = [];
  wasm.code.forEach(({ op }, at) => {
    if (op !== "i32.atomic.rmw.cmpxchg") return;
    const [replacement] = operandsOf(wasm.code, at, 1) ?? [[]];
    if (replacement.length === 0 || !isZero(replacement)) all.push(follow(wasm, at));
  });
  return all;
}

function follow(wasm: WasmFunction, at: number): Acquisition {
  const { name, code, around } = wasm;
  const faults = new Set<string>();
  const fault = (i: number, what: string): void => void faults.add(`${name}+${i}: ${what}`);

  // A lock is 0 or, for a line, a version while it is free.
  const operands = operandsOf(code, at, 3);
  const [, free, address] = operands ?? [];
  const isFree = free === undefined ? "" : text(free.slice(-1));
  const lock = address && addressOf(address, code[at]);
  if (lock === undefined || !/^(i32\.const 0|local\.get \S+)$/.test(isFree)) {
    fault(at, "cannot follow what is swapped for what, and where");
    return { function: name, lock: "unknown", isVersioned: false, held: 0, faults: [...faults] };
  }
  const isVersioned = isFree !== "i32.const 0";
  const kept = [lock.split("+")[0], isFree.split(" ")[1]];

  /** True for the store that makes this lock free: 0, or the version and then some. */
  const isRelease = (i: number): boolean => {
    if (code[i].op !== "i32.atomic.store") return false;
    const [value, to] = operandsOf(code, i, 2) ?? [];
    if (value === undefined || addressOf(to, code[i]) !== lock) return false;
    return isVersioned
      ? new RegExp(`^${isFree.replace("$", "\\$")} i32\\.const [1-9]\\d* i32\\.add$`).test(text(value))
      : isZero(value);
  };

  /** Where a jump to `label` from `i` goes on; undefined (and a fault) if it goes back. */
  const jump = (i: number, label: string): number | undefined => {
    const target = around[i].findLast((opening) => code[opening].operands.split(" ")[0] === label);
    if (target === undefined) {
      fault(i, `cannot follow the jump to ${label}`);
    } else if (code[target].op === "loop") {
      fault(i, `a jump back to ${label}`);
    } else {
      return code[target].end! + 1;
    }
    return undefined;
  };

  // The lock was taken if the swap returns the value of a free one: find the branch that tests this, and its side.
  const ways: number[] = [];
  let isTakenWhenZero = !isVersioned;
  let i = at + 1;
  if (isVersioned) {
    // Compared with the version that was pushed before the swap, or after it.
    const before = at - operands!.flat().length - 1;
    if (text([code[i]]) === isFree) i++;
    else if (before < 0 || text([code[before]]) !== isFree) fault(i, "cannot follow what becomes of the answer");
    if (!/^i32\.(eq|ne)$/.test(code[i].op)) fault(i, "cannot follow what becomes of the answer");
    isTakenWhenZero = code[i++].op === "i32.ne";
  }
  for (; code[i].op === "i32.eqz"; i++) isTakenWhenZero = !isTakenWhenZero;
  if (code[i].op === "if") {
    const otherwise = code[i].else ?? code[i].end!;
    ways.push(isTakenWhenZero ? otherwise + 1 : i + 1);
  } else if (code[i].op === "br_if") {
    const to = isTakenWhenZero ? i + 1 : jump(i, code[i].operands);
    if (to !== undefined) ways.push(to);
  } else {
    fault(i, `cannot follow what becomes of the answer: ${code[i].op}`);
  }

  const held = new Set<number>();
  while (ways.length > 0) {
    const here = ways.pop()!;
    if (held.has(here)) continue;
    held.add(here);
    if (here >= code.length) {
      fault(here, "the end of the function, and the lock is held");
      continue;
    }
    const { op, operands } = code[here];
    if (isRelease(here)) continue;
    if ((op === "local.set" || op === "local.tee") && kept.includes(operands)) {
      fault(here, `${operands}, which names the lock, is written over`);
    }
    const to = (next: number | undefined): void => void (next !== undefined && ways.push(next));
    if (forbidden.has(op)) fault(here, forbidden.get(op)!);
    else if (op === "br") to(jump(here, operands));
    else if (op === "else") to(code[around[here].at(-1)!].end! + 1);
    else {
      if (op === "br_if") to(jump(here, operands));
      if (op === "if") to((code[here].else ?? code[here].end!) + 1);
      to(here + 1);
    }
  }
  return { function: name, lock, isVersioned, held: held.size, faults: [...faults] };
}
