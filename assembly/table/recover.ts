// What a thread that is gone for good still held.

import { Policy, policyAt } from "../layout/policy";
import { BUSY, LINE_BYTES, LINE_OWNER_BITS, LINE_VERSION_STEP, SLOT_STATE } from "../layout/slots";
import { HEADER_POLICY_LOCK, LOCK_BYTES, LOCK_COUNT, LOCK_SLOT, LOCKS, POLICY_COUNT } from "../layout/table";
import { Scratch, THREAD_BYTES, THREADS } from "../layout/thread";
import { lineSets } from "../thread";
import { lineOf } from "./lines";

/**
 * Gives back what a thread held: call it only when `dead` (its number + 1) can run
 * no more. Returns how many locks it held.
 */
export function recover(dead: i32): i32 {
  let held = recoverStripes(dead) + recoverLine(dead);
  for (let i: u64 = 0; i < u64(POLICY_COUNT); i++) {
    const lock = changetype<usize>(policyAt(i)) + offsetof<Policy>("lock");
    if (atomic.cmpxchg<i32>(lock, dead, 0) == dead) held++;
  }
  if (atomic.cmpxchg<i32>(0, dead, 0, HEADER_POLICY_LOCK) == dead) held++;
  return held;
}

/** The slot of a claim that did not end belongs to no key. */
function recoverStripes(dead: i32): i32 {
  let held = 0;
  for (let i = 0; i < LOCK_COUNT; i++) {
    const lock = LOCKS + usize(i) * LOCK_BYTES;
    if (atomic.load<i32>(lock) != dead) continue;
    const slot = usize(load<u32>(lock, LOCK_SLOT));
    if (slot >= lineSets && (atomic.load<i32>(lineOf(slot)) & LINE_OWNER_BITS) == dead) {
      atomic.store<u64>(slot, 0);
      memory.fill(lineOf(slot) + 4, 0, LINE_BYTES - 4);
    } else if (slot && slot < lineSets && atomic.load<u64>(slot, SLOT_STATE) == ((u64(dead) << 2) | BUSY)) {
      atomic.store<u64>(slot, 0);
      atomic.store<u64>(slot, 0, SLOT_STATE);
    }
    atomic.store<i32>(lock, 0);
    held++;
  }
  return held;
}

/** Opens the line that a thread held. */
function recoverLine(dead: i32): i32 {
  const scratch = changetype<Scratch>(THREADS + usize(dead - 1) * THREAD_BYTES);
  const line = usize(scratch.lineLocked);
  if (!line) return 0;
  const word = atomic.load<i32>(line);
  if ((word & LINE_OWNER_BITS) != dead) return 0;
  atomic.store<i32>(line, (word & ~LINE_OWNER_BITS) + LINE_VERSION_STEP);
  return 1;
}
