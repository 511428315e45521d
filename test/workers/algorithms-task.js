// A task of test/pool.test.ts: notes that it began, may stand at a gate, may fail.

/** `log`: word 0 counts who began; `gate`: word 0 is 1 once it is open. */
export default function task({ value, log, place, gate, error }) {
  if (log) log[1 + place] = Atomics.add(log, 0, 1) + 1;
  if (gate) Atomics.wait(gate, 0, 0);
  if (error) throw new Error(error);
  return value;
}

export function double({ value }) {
  return 2 * value;
}
