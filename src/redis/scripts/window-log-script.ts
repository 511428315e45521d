// The exact sliding window in Redis: a log of what was admitted, in a sorted
// set by time. (Keeping each call as a key of its own that expires, and counting
// keys, takes a KEYS or SCAN over the whole database for every decision, is not
// atomic, and finds no one slot in a cluster. A sorted set is the same log under
// one key.)
//
// A member is the sum of all costs up to and with it, in 16 digits, and its own
// cost; so the costs between any two members are one subtraction, and members
// of the same microsecond sort as they came. Its score is when it acts, in
// microseconds. What has left the window is removed when something is added: a
// refusal writes nothing.

import { luaHead, MOST_AHEAD_US } from "./preamble.js";
import { script } from "./script.js";

// A limit's numbers: the limit, and the window in microseconds.
export const windowLogScript = script(`${luaHead(2)}
local max, min, sub, format = math.max, math.min, string.sub, string.format
local key, limit, length = KEYS[1], tonumber(ARGV[3]), tonumber(ARGV[4])

-- Sum, cost and time of the member at a rank, or nothing.
local function at(rank)
  local found = redis.call('ZRANGE', key, rank, rank, 'WITHSCORES')
  if found[1] == nil then return nil end
  return tonumber(sub(found[1], 1, 16)), tonumber(sub(found[1], 18)), tonumber(found[2])
end

local function add(sum, own, time)
  redis.call('ZADD', key, format('%.0f', time), format('%016.0f:%.0f', sum, own))
end

local function remove(sum, own)
  redis.call('ZREM', key, format('%016.0f:%.0f', sum, own))
end

local gone = redis.call('ZCOUNT', key, '-inf', format('%.0f', now - length))
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

-- Makes the key go when its last member has left the window.
local function keep()
  local _, _, time = at(-1)
  if time then redis.call('PEXPIREAT', key, format('%.0f', math.ceil((time + length) / 1000))) end
end

if op == 'give' then
  while cost > 0 and total > passed do
    local some = min(cost, lastCost)
    remove(total, lastCost)
    if some < lastCost then add(total - some, lastCost - some, lastTime) end
    cost = cost - some
    total, lastCost, lastTime = at(-1)
    if total == nil then break end
  end
  keep()
  return 1
end
if op == 'charge' then
  add(total + cost, cost, max(now, lastTime))
  keep()
  return 1
end
if op == 'cancel' then
  local when, taken = string.match(act, '(%d+) (%d+)')
  if now > tonumber(when) then return 0 end
  -- Those that act at the same moment and cost the same are interchangeable. Who is behind keeps its time.
  local from = redis.call('ZCOUNT', key, '-inf', '(' .. when)
  local members = redis.call('ZRANGE', key, from, -1, 'WITHSCORES')
  local back = 0
  for i = 1, #members, 2 do
    local sum, own, time = tonumber(sub(members[i], 1, 16)), sub(members[i], 18), tonumber(members[i + 1])
    if back > 0 then
      redis.call('ZREM', key, members[i])
      add(sum - back, tonumber(own), time)
    elseif members[i + 1] == when and own == taken then
      redis.call('ZREM', key, members[i])
      back = tonumber(taken)
    end
  end
  if back == 0 then return 0 end
  keep()
  return 1
end

local wait = -1
local time = max(now, lastTime)
if cost <= limit then
  -- So much must have left the window; the member that brings the sum there is found by halving.
  local leaving = total + cost - limit
  if leaving > passed then
    local low, high = gone, redis.call('ZCARD', key) - 1
    while low < high do
      local middle = math.floor((low + high) / 2)
      if at(middle) >= leaving then high = middle else low = middle + 1 end
    end
    local _, _, leaves = at(low)
    time = max(time, leaves + length)
  end
  wait = time - now
end
local isGranted = wait >= 0 and wait <= ${MOST_AHEAD_US} and (most < 0 or wait <= most)
local answer = { isGranted and 1 or 0, 0, wait, 0, 0 }
if isGranted and op == 'take' and cost > 0 then
  if gone > 0 then redis.call('ZREMRANGEBYRANK', key, 0, gone - 1) end
  total, lastTime = total + cost, time
  add(total, cost, time)
  keep()
  if keeps then answer[6] = format('%.0f %.0f', time, cost) end
end
if lastTime <= now then answer[2] = max(0, limit - (total - passed)) end
if total > passed then answer[4] = lastTime + length - now end
return answer
`);
