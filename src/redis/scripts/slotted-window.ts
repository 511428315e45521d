// The sliding window in time slots: the present slot and as many whole ones
// before it count, so that no interval of the window's length sees more than
// the limit. A key holds a packed string of integers: the number of the last
// slot in use, its count, and the counts of the `slots` slots before it.

import { LUA_IS_GRANTED } from "./preamble.js";
import { type Algorithm, type Operation, windowReader } from "./script.js";

const MAX_COUNT = 2 ** 50;

/**
 * `advance` makes a slot the last one and forgets those that are too old by then; `seen` sums a window
 * that ends `by` slots after the last one.
 */
const LOAD = `local place = math.floor(now / length)
local stored = redis.call('GET', KEYS[1])
local last, counts = place, {}
for i = 0, slots do counts[i] = 0 end

local function advance(slot)
  local by = slot - last
  if by <= 0 then return end
  for i = slots, 0, -1 do counts[i] = counts[i - by] or 0 end
  last = slot
end

local function seen(by)
  local sum = 0
  for i = 0, slots - by do sum = sum + counts[i] end
  return sum
end

if stored then
  local i = -1
  for number in string.gmatch(stored, '%d+') do
    if i < 0 then last = tonumber(number) elseif i <= slots then counts[i] = tonumber(number) end
    i = i + 1
  end
  advance(place)
end
`;

const STORE = `if last <= place and seen(0) == 0 then
  redis.call('DEL', KEYS[1])
else
  local words = { string.format('%.0f', last) }
  for i = 0, slots do words[i + 2] = string.format('%.0f', counts[i]) end
  redis.call('SET', KEYS[1], table.concat(words, ' '), 'PXAT', math.ceil((last + slots + 1) * length / 1000))
end
`;

/** `at` is the first slot from the last one on in which the cost fits. */
const DECIDE = `local by = 0
while seen(by) + cost > limit do by = by + 1 end
local wait, at = 0, last + by
if at > place then wait = at * length - now end
`;

const TAKE = `advance(at)
counts[0] = counts[0] + cost
${STORE}`;

const ANSWER = `local left, done = 0, last
if last == place then left = math.max(0, limit - seen(0)) end
for i = 0, slots do
  if counts[i] > 0 then
    done = last - i + slots + 1
    break
  end
end
return { left, math.max(0, done * length - now), wait > 0 and wait or nil }`;

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
  for i = 0, slots do
    local some = math.min(cost, counts[i])
    counts[i] = counts[i] - some
    cost = cost - some
  end
  ${STORE}end
return 1`;
    case "charge":
      return `counts[0] = math.min(${MAX_COUNT}, counts[0] + cost)\n${STORE}return 1`;
    case "cancel":
      return `local due, slot, taken = string.match(turn, '(%d+) (%d+) (%d+)')
local i = last - slot
if now > tonumber(due) or (counts[i] or 0) == 0 then return 0 end
counts[i] = math.max(0, counts[i] - taken)
${STORE}return 1`;
  }
}

/** A window is `slots` slots of `slotUs`. */
export function slottedWindow(limit: number, slotUs: number, slots: number): Algorithm {
  return {
    names: ["limit", "length", "slots"],
    limits: [[limit, slotUs, slots]],
    lua: (operation) => LOAD + body(operation),
    read: windowReader(limit),
  };
}
