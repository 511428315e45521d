// The exact sliding window in Redis: a log of what was admitted, in a sorted
// set by time. (To store each call as a key of its own that expires, and to count
// keys, takes a KEYS or SCAN over the whole database for every decision, is not
// atomic, and finds no one slot in a cluster. A sorted set is the same log under
// one key.)
//
// A member is the sum of all costs up to and with it, in 16 digits, and its own
// cost; so the costs between any two members are one subtraction, and members
// of the same microsecond sort as they came. Its score is when it is due, in
// microseconds. What has left the window is removed when something is added: a
// refusal writes nothing.

import { LUA_IS_GRANTED } from "./preamble.js";
import { type Algorithm, type Operation, windowReader } from "./script.js";

/**
 * `total` is the sum of all costs in the log, `passed` of those that have left the window, `gone` how
 * many those are.
 */
const LOAD = `-- Sum, cost and time of the member at a rank, or nothing.
local function at(rank)
  local found = redis.call('ZRANGE', KEYS[1], rank, rank, 'WITHSCORES')
  if found[1] == nil then return nil end
  return tonumber(string.sub(found[1], 1, 16)), tonumber(string.sub(found[1], 18)), tonumber(found[2])
end

local function add(sum, own, time)
  redis.call('ZADD', KEYS[1], string.format('%.0f', time), string.format('%016.0f:%.0f', sum, own))
end

local gone = redis.call('ZCOUNT', KEYS[1], '-inf', string.format('%.0f', now - length))
local total, lastCost, lastTime = at(-1)
local passed = 0
if total == nil then
  total, lastTime = 0, 0
elseif gone > 0 then
  passed = at(gone - 1)
else
  local firstSum, firstCost = at(0)
  passed = firstSum - firstCost
end
`;

/** Makes the key expire when its last member has left the window. */
const EXPIRE = `local _, _, time = at(-1)
if time then redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', math.ceil((time + length) / 1000))) end
`;

/** `due` is when the cost fits, at the earliest now and after all that are in the log. */
const DECIDE = `local due = math.max(now, lastTime)
-- So much must have left the window; the member that brings the sum there is found by halving.
local leaving = total + cost - limit
if leaving > passed then
  local low, high = gone, redis.call('ZCARD', KEYS[1]) - 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if at(middle) >= leaving then high = middle else low = middle + 1 end
  end
  local _, _, leaves = at(low)
  due = math.max(due, leaves + length)
end
local wait = due - now
`;

const TAKE = `if gone > 0 then redis.call('ZREMRANGEBYRANK', KEYS[1], 0, gone - 1) end
total, lastTime = total + cost, due
add(total, cost, due)
${EXPIRE}`;

const ANSWER = `local left, full = 0, 0
if lastTime <= now then left = math.max(0, limit - (total - passed)) end
if total > passed then full = lastTime + length - now end
return { left, full, wait > 0 and wait or nil }`;

const GIVE = `while cost > 0 and total > passed do
  local some = math.min(cost, lastCost)
  redis.call('ZREM', KEYS[1], string.format('%016.0f:%.0f', total, lastCost))
  if some < lastCost then add(total - some, lastCost - some, lastTime) end
  cost = cost - some
  total, lastCost, lastTime = at(-1)
  if total == nil then break end
end
${EXPIRE}return 1`;

/**
 * Those that are due at the same moment and cost the same are interchangeable. What is behind stays
 * due when it was.
 */
const CANCEL = `local due, taken = string.match(turn, '(%d+) (%d+)')
if now > tonumber(due) then return 0 end
local from = redis.call('ZCOUNT', KEYS[1], '-inf', '(' .. due)
local members = redis.call('ZRANGE', KEYS[1], from, -1, 'WITHSCORES')
local back = 0
for i = 1, #members, 2 do
  local sum, own = tonumber(string.sub(members[i], 1, 16)), string.sub(members[i], 18)
  if back > 0 then
    redis.call('ZREM', KEYS[1], members[i])
    add(sum - back, tonumber(own), tonumber(members[i + 1]))
  elseif members[i + 1] == due and own == taken then
    redis.call('ZREM', KEYS[1], members[i])
    back = tonumber(taken)
  end
end
if back == 0 then return 0 end
${EXPIRE}return 1`;

function body(operation: Operation): string {
  switch (operation) {
    case "take":
      return `${DECIDE}if wait == 0 and cost > 0 then\n${TAKE}end\n${ANSWER}`;
    case "peek":
      return DECIDE + ANSWER;
    case "reserve":
      return `${DECIDE}${LUA_IS_GRANTED}${TAKE}return { 1, wait, string.format('%.0f %.0f', due, cost) }`;
    case "give":
      return GIVE;
    case "charge":
      return `add(total + cost, cost, math.max(now, lastTime))\n${EXPIRE}return 1`;
    case "cancel":
      return CANCEL;
  }
}

export function windowLog(limit: number, lengthUs: number): Algorithm {
  return {
    names: ["limit", "length"],
    limits: [[limit, lengthUs]],
    lua: (operation) => LOAD + body(operation),
    read: windowReader(limit),
  };
}
