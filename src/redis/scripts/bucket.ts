// Token and leaky buckets in Redis: the virtual-time word of this library's own
// table (GCRA, ITU-T I.371), counted in time. A key holds the moment at which
// its bucket is (or was) empty, as one decimal integer; see fixed-point.ts for
// its digits. It expires after the bucket is full again: at the next step but
// one of a grid of an eighth of the time to refill, at least a second.
//
// A word of at most 19 digits is an integer to Redis as well, which adds to it
// in place. To set its time to live costs more than all the rest, so that is done
// only when the moment at which the bucket is full has passed a step of the grid.
//
// Several limits are a key each, and are charged together or not at all. What is
// reserved is charged as of the moment at which all have room.

import { fixedPoint, MAX_UNITS } from "./fixed-point.js";
import { eachLimit } from "./preamble.js";
import type { Algorithm, Operation } from "./script.js";

/** Units a microsecond up to which a word is an integer to Redis. */
const MAX_INTEGER_SCALE = 1000;

/**
 * Reads the word of a limit. `units@` is how far after now its bucket is empty (less
 * than 0: was empty before now), at least as full as it can be; `raw@` is what the
 * word itself says, if it can be added to in place.
 */
const LOAD = `local span@ = burst@ * interval@
local units@, raw@ = -span@, nil
local stored@ = redis.call('GET', KEYS[@])
if stored@ then
  local unit = 1
  if #stored@ == 16 then
    raw@ = (stored@ - now) * scale@
  else
    unit = 10 ^ (#stored@ - 16)
    raw@ = (string.sub(stored@, 1, 16) - now) * scale@ + math.floor(string.sub(stored@, 17) * (scale@ / unit))
  end
  if raw@ > units@ then units@ = raw@ end
  if unit ~= scale@ or unit > ${MAX_INTEGER_SCALE} then raw@ = nil end
end
`;

/** Writes `units@` to the word of a limit. */
const STORE = `if units@ <= -span@ then
  redis.call('DEL', KEYS[@])
else
  local full = now + (units@ + span@) / scale@
  full = full - full % step@
  if raw@ then
    redis.call('INCRBY', KEYS[@], units@ - raw@)
    local before = now + (raw@ + span@) / scale@
    if before - before % step@ ~= full then redis.call('PEXPIREAT', KEYS[@], full / 1000 + step@ / 500) end
  else
    -- The digits of a microsecond with their zeros, after a 1 that is cut off.
    local rest = string.sub(string.format('%.0f', scale@ + units@ % scale@), 2)
    local word = string.format('%.0f', now + math.floor(units@ / scale@)) .. rest
    redis.call('SET', KEYS[@], word, 'PXAT', full / 1000 + step@ / 500)
  end
end
`;

/**
 * Of each limit: units a token, burst, units a microsecond, the grid of its time to live, units that a
 * reservation may reach ahead.
 */
export const BUCKET_NAMES: readonly string[] = ["interval@", "burst@", "scale@", "step@", "reach@"];

/** The first limit's word, for other scripts on the same keys. */
export const LOAD_BUCKET = eachLimit(1, LOAD);
export const STORE_BUCKET = eachLimit(1, STORE);

/** How far after now each bucket would be empty if the cost were taken: it is there if that is not later than now. */
const NEED = "local need@ = units@ + cost * interval@\n";

/** Takes the cost from all limits or from none. */
function take(limitCount: number): string {
  const isThere = Array.from({ length: limitCount }, (_, i) => `need${i + 1} <= 0`).join(" and ");
  return `if ${isThere} and cost > 0 then
${eachLimit(limitCount, `units@ = need@\n${STORE}`)}end
`;
}

/**
 * What 'take' and 'peek' answer: what each limit needs, from which all else follows. Of one limit it
 * is not in an array, which saves 2 us.
 */
function needs(limitCount: number): string {
  const all = Array.from({ length: limitCount }, (_, i) => `need${i + 1}`).join(", ");
  return limitCount === 1 ? `return ${all}` : `return { ${all} }`;
}

/** How long each limit would have to wait, and all of them, microseconds; and whether that is granted. */
const WAIT = `local wait@ = need@ > 0 and math.ceil(need@ / scale@) or 0
if wait@ > wait then wait = wait@ end
isGranted = isGranted and need@ <= reach@
`;

/**
 * What was reserved: when, how long it has to wait, and for each limit its word after that and how
 * much that is more.
 */
const RESERVE = `do
  local before = units@
  if wait@ < wait then units@ = math.max(units@, wait * scale@ - span@) end
  units@ = units@ + cost * interval@
  ${STORE}turn = turn .. string.format(' %.0f %.0f', math.max(units@, 0), units@ - before)
end
`;

/** Gives back what nothing is reserved behind. */
const CANCEL = `do
  local word, taken = field() - elapsed * scale@, tonumber(field())
  local back = taken - math.max(0, units@ - word)
  if stored@ and back > 0 then
    units@ = units@ - back
    ${STORE}restored = 1
  end
end
`;

function body(operation: Operation, limitCount: number): string {
  const each = (text: string): string => eachLimit(limitCount, text);
  switch (operation) {
    case "take":
      return each(NEED) + take(limitCount) + needs(limitCount);
    case "peek":
      return each(NEED) + needs(limitCount);
    case "reserve":
      return `local wait, isGranted = 0, true
${each(NEED + WAIT)}isGranted = isGranted and (most < 0 or wait <= most)
if not isGranted or cost == 0 then return { isGranted and 1 or 0, wait } end
local turn = string.format('%.0f %.0f', now, wait)
${each(RESERVE)}return { 1, wait, turn }`;
    case "give":
      return `${each(`if stored@ then\n  units@ = units@ - cost * interval@\n  ${STORE}end\n`)}return 1`;
    case "charge":
      return `${each(`units@ = math.min(${MAX_UNITS}, units@ + cost * interval@)\n${STORE}`)}return 1`;
    case "cancel":
      return `local at, delay, words = string.match(turn, '^(%d+) (%d+)(.*)$')
local elapsed, field, restored = now - at, string.gmatch(words, '%S+'), 0
if elapsed > tonumber(delay) then return 0 end
${each(CANCEL)}return restored`;
  }
}

/** The grid of a bucket's time to live, microseconds. */
function stepUs(refillUs: number): number {
  return Math.max(1, Math.ceil(refillUs / 8e6)) * 1_000_000;
}

/**
 * One bucket for each limit. A reservation may reach `queue` tokens ahead; Infinity is
 * as many as can be counted. Throws RangeError for a rate at which a bucket would not
 * refill within 20 years.
 */
export function bucket(limits: readonly { rate: number; burst: number }[], queue: number): Algorithm {
  const buckets = limits.map(({ rate, burst }) => {
    const { interval, digits } = fixedPoint(rate, burst);
    return { interval, burst, scale: 10 ** digits, span: burst * interval };
  });
  return {
    names: BUCKET_NAMES,
    limits: buckets.map(({ interval, burst, scale, span }) => [
      interval,
      burst,
      scale,
      stepUs(span / scale),
      Math.min(MAX_UNITS, queue * interval),
    ]),
    lua: (operation) => eachLimit(limits.length, LOAD) + body(operation, limits.length),
    read(answer, cost, asked, takes) {
      const needs = typeof answer === "number" ? [answer] : answer as number[];
      const isTaken = takes && needs.every((need) => need <= 0);
      let [left, limitIndex, waitUs, fullUs] = [Infinity, 0, 0, 0];
      for (let i = 0; i < needs.length; i++) {
        const { interval, burst, scale, span } = buckets[i];
        const need = needs[i] + (cost - asked) * interval;
        const units = needs[i] - (isTaken ? 0 : asked * interval);
        const tokens = Math.min(burst, Math.max(0, Math.floor(-units / interval)));
        // The first that refuses decides, or the one with the fewest tokens.
        if (waitUs === 0 && (need > 0 || tokens < left)) [left, limitIndex] = [tokens, i];
        if (need > 0) waitUs = Math.max(waitUs, cost > burst ? Infinity : Math.ceil(need / scale));
        fullUs = Math.max(fullUs, Math.ceil((units + span) / scale));
      }
      return { left, fullUs, waitUs, limitIndex };
    },
  };
}
