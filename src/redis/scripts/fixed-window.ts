// Fixed windows in Redis. Windows begin at the multiples of their length since
// 1970 on the server's clock. A key holds one decimal integer: the number of the
// last window in use and, in ten digits, what was used of it. All windows
// between the present one and that one are used up; a word of an earlier window
// says nothing.
//
// `used` counts what is used from the beginning of the present window on, over
// as many windows as it takes. A word of at most 19 digits is an integer to Redis
// as well, which adds to the count of the present window in place.

import { LUA_IS_GRANTED, MAX_AHEAD_US } from "./preamble.js";
import { type Algorithm, type Operation, windowReader } from "./script.js";

/** Largest number of a window whose word is an integer to Redis: nine digits and the ten of its count. */
const MAX_INTEGER_WINDOW = 900_000_000;

/** `raw` is what was counted of the present window, if the word is of that one. */
const LOAD = `local place = math.floor(now / length)
local used, raw = 0, nil
local stored = redis.call('GET', KEYS[1])
if stored then
  local last = string.sub(stored, 1, -11) - place
  if last >= 0 then
    local count = tonumber(string.sub(stored, -10))
    if last == 0 then raw = count end
    used = last * limit + (count < limit and count or limit)
  end
end
`;

/** The window, counted from the present one, in which the last of what is used is. */
const WINDOW = "(used > limit and math.ceil(used / limit) - 1 or 0)";

const STORE = `if used <= 0 then
  redis.call('DEL', KEYS[1])
else
  local last = ${WINDOW}
  if raw and last == 0 and place <= ${MAX_INTEGER_WINDOW} then
    redis.call('INCRBY', KEYS[1], used - raw)
  else
    local word = string.format('%.0f%010.0f', place + last, used - last * limit)
    redis.call('SET', KEYS[1], word, 'PXAT', (place + last + 1) * length / 1000)
  end
end
`;

/** `next` is what would be used, `at` the window that it would be taken from: a cost is taken from one window. */
const DECIDE = `local at = ${WINDOW}
local next, wait = used + cost, 0
if next > (at + 1) * limit then
  at = at + 1
  next = at * limit + cost
end
if at > 0 then wait = (place + at) * length - now end
`;

const ANSWER = `local left, full = used < limit and limit - used or 0, 0
if used > 0 then full = (place + ${WINDOW} + 1) * length - now end
if wait > 0 then return { left, full, wait } end
return { left, full }`;

function body(operation: Operation): string {
  switch (operation) {
    case "take":
      return `${DECIDE}if wait == 0 and cost > 0 then
  used = next
  ${STORE}end
${ANSWER}`;
    case "peek":
      return DECIDE + ANSWER;
    case "reserve":
      return `${DECIDE}${LUA_IS_GRANTED}used = next
${STORE}return { 1, wait, string.format('%.0f %.0f %.0f', now + wait, place + at, cost) }`;
    case "give":
      return `if used > 0 then
  used = used - cost
  ${STORE}end
return 1`;
    case "charge":
      return `if limit > 0 then
  used = math.min(used + cost, (math.floor(${MAX_AHEAD_US} / length) + 1) * limit)
  ${STORE}end
return 1`;
    case "cancel":
      // Gives back to the window that it was reserved in, unless a later one is reserved too.
      return `local due, window, taken = string.match(turn, '(%d+) (%d+) (%d+)')
if now > tonumber(due) or ${WINDOW} ~= window - place then return 0 end
local back = math.min(tonumber(taken), used - (window - place) * limit)
if back <= 0 then return 0 end
used = used - back
${STORE}return 1`;
  }
}

export function fixedWindow(limit: number, lengthUs: number): Algorithm {
  return {
    names: ["limit", "length"],
    limits: [[limit, lengthUs]],
    lua: (operation) => LOAD + body(operation),
    read: windowReader(limit),
  };
}
