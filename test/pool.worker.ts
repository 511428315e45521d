// A task of a leaky pool: notes that it began, may stand at a gate, may fail.

export interface Task {
  value?: unknown;
  /** Word 0 counts the tasks that began; word 1 + `place` becomes this one's number. */
  log?: Int32Array;
  place?: number;
  /** Word 0 is 1 once the gate is open. */
  gate?: Int32Array;
  error?: string;
}

export default function task({ value, log, place = 0, gate, error }: Task): unknown {
  if (log) log[1 + place] = Atomics.add(log, 0, 1) + 1;
  if (gate) Atomics.wait(gate, 0, 0);
  if (error) throw new Error(error);
  return value;
}

export function double({ value }: { value: number }): number {
  return 2 * value;
}
