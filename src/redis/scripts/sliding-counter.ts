// The two-window counter in Redis: the calls of this window, and of the one
// before as far as it still overlaps,
//
//   before x (W - elapsed) / W + present
//
// A key holds one decimal integer: the number of the last window in use, and
// the counts of the one before it and of itself in ten digits each. Windows
// begin at the multiples of their length since 1970 on the server's clock.
// Long windows with large limits count time in longer ticks than microseconds,
// so that counts x ticks stay below 2^53; they forget up to one tick later.
//
// A count of the last window is overwritten in place, and its time to live stays:
// to set it would cost more than all the rest.

import { LUA_IS_GRANTED } from "./preamble.js";
import { type Algorithm, type Operation, windowReader } from "./script.js";

const MAX_COUNT = 9_999_999_999;

const LOAD = `local place = math.floor(now / length)
local last, before, present = place, 0, 0
local window, former
local stored = redis.call('GET', KEYS[1])
if stored then
  window = tonumber(string.sub(stored, 1, -21))
  if window >= place then
    former = tonumber(string.sub(stored, -20, -11))
    last, before, present = window, former, tonumber(string.sub(stored, -10))
  elseif window == place - 1 then
    before = tonumber(string.sub(stored, -10))
  end
end
`;

const STORE = `if last <= place and before + present == 0 then
  redis.call('DEL', KEYS[1])
else
  local count = string.format('%010.0f', present)
  if window == last and former == before then
    redis.call('SETRANGE', KEYS[1], #stored - 10, count)
  else
    redis.call('SET', KEYS[1], string.format('%.0f%010.0f', last, before) .. count, 'PXAT', (last + 2) * length / 1000)
  end
end
`;

/** Ticks of the present window that have passed. */
const ELAPSED = "math.floor((now - place * length) / tick)";

/** `at` is the first window from the last one on in which the cost fits. */
const DECIDE = `local wait, at, older, newer = 0, last, before, present
while true do
  local over = older + newer + cost - limit
  -- The tick of the window from which on it fits.
  local first = over > 0 and (older > 0 and math.ceil(ticks * over / older) or ticks) or 0
  local from = first > 0 and at == place and ${ELAPSED} or 0
  if from > first then first = from end
  if first < ticks then
    if at > place or first > from then wait = at * length + first * tick - now end
    break
  end
  at, older, newer = at + 1, newer, 0
end
`;

const TAKE = `if at == last + 1 then before, present = present, 0 elseif at > last then before, present = 0, 0 end
last, present = at, present + cost
${STORE}`;

const ANSWER = `local left, done = 0, last
if last == place then
  left = limit - present
  if before > 0 then left = left - math.ceil(before * (ticks - ${ELAPSED}) / ticks) end
  if left < 0 then left = 0 end
end
if present > 0 then done = last + 2 elseif before > 0 then done = last + 1 end
local full = done > place and done * length - now or 0
if wait > 0 then return { left, full, wait } end
return { left, full }`;

function body(operation: Operation): string {
  switch (operation) {
    case "take":
      return `${DECIDE}if wait == 0 and cost > 0 then\n${TAKE}end\n${ANSWER}`;
    case "peek":
      return DECIDE + ANSWER;
    case "reserve":
      return `${DECIDE}${LUA_IS_GRANTED}${TAKE}return { 1, wait, string.format('%.0f %.0f %.0f', now + wait, at, cost) }`;
    case "give":
      return `if stored then
  local newer = math.min(cost, present)
  present = present - newer
  before = math.max(0, before - (cost - newer))
  ${STORE}end
return 1`;
    case "charge":
      return `present = math.min(${MAX_COUNT}, present + cost)\n${STORE}return 1`;
    case "cancel":
      return `local due, at, taken = string.match(turn, '(%d+) (%d+) (%d+)')
local age, count = last - at, 0
if age == 0 then count = present elseif age == 1 then count = before end
if now > tonumber(due) or count == 0 then return 0 end
if age == 0 then present = math.max(0, present - taken) else before = math.max(0, before - taken) end
${STORE}return 1`;
  }
}

/** `tickUs` divides 1,000,000 or is a multiple of it: in what time is counted, microseconds. */
export function slidingCounter(limit: number, lengthUs: number, tickUs: number): Algorithm {
  return {
    names: ["limit", "length", "tick", "ticks"],
    limits: [[limit, lengthUs, tickUs, Math.ceil(lengthUs / tickUs)]],
    lua: (operation) => LOAD + body(operation),
    read: windowReader(limit),
  };
}
