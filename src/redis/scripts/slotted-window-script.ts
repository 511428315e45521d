// The sliding window in time slots: the present slot and as many whole ones
// before it count, so that no interval of the window's length sees more than
// the limit. A key holds a packed string of integers: the number of the last
// slot in use, its count, and the counts of the `slots` slots before it.

import { luaHead, MOST_AHEAD_US } from "./preamble.js";
import { script } from "./script.js";

// A limit's numbers: the limit, a slot in microseconds, and how many slots a window has.
export const slottedWindowScript = script(`${luaHead(3)}
local floor, ceil, max, min, format = math.floor, math.ceil, math.max, math.min, string.format
local key, limit, length, slots = KEYS[1], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local place = floor(now / length)
local stored = redis.call('GET', key)
local last = place
local counts = {}
for i = 0, slots do counts[i] = 0 end

-- Makes \`slot\` the last one: those that are too old by then are forgotten.
local function advance(slot)
  local by = slot - last
  if by <= 0 then return end
  for i = slots, 0, -1 do counts[i] = counts[i - by] or 0 end
  last = slot
end

if stored then
  local i = -1
  for number in string.gmatch(stored, '%d+') do
    if i < 0 then last = tonumber(number) elseif i <= slots then counts[i] = tonumber(number) end
    i = i + 1
  end
  advance(place)
end

-- What a window that ends with the slot \`by\` after the last one has seen.
local function seen(by)
  local sum = 0
  for i = 0, slots - by do sum = sum + counts[i] end
  return sum
end

local function write()
  if last <= place and seen(0) == 0 then return redis.call('DEL', key) end
  local words = { format('%.0f', last) }
  for i = 0, slots do words[i + 2] = format('%.0f', counts[i]) end
  redis.call('SET', key, table.concat(words, ' '), 'PXAT', format('%.0f', ceil((last + slots + 1) * length / 1000)))
end

if op == 'give' then
  if stored then
    for i = 0, slots do
      local some = min(cost, counts[i])
      counts[i] = counts[i] - some
      cost = cost - some
    end
    write()
  end
  return 1
end
if op == 'charge' then
  counts[0] = min(2 ^ 50, counts[0] + cost)
  write()
  return 1
end
if op == 'cancel' then
  local at, slot, taken = string.match(act, '(%d+) (%d+) (%d+)')
  local i = last - slot
  if now > tonumber(at) or (counts[i] or 0) == 0 then return 0 end
  counts[i] = max(0, counts[i] - taken)
  write()
  return 1
end

local wait, at = -1, last
if cost <= limit then
  local by = 0
  while seen(by) + cost > limit do by = by + 1 end
  at = last + by
  wait = 0
  if at > place then wait = at * length - now end
end
local isGranted = wait >= 0 and wait <= ${MOST_AHEAD_US} and (most < 0 or wait <= most)
local answer = { isGranted and 1 or 0, 0, wait, 0, 0 }
if isGranted and op == 'take' and cost > 0 then
  advance(at)
  counts[0] = counts[0] + cost
  write()
  if keeps then answer[6] = format('%.0f %.0f %.0f', now + wait, at, cost) end
end
if last == place then answer[2] = max(0, limit - seen(0)) end
local done = last
for i = 0, slots do
  if counts[i] > 0 then
    done = last - i + slots + 1
    break
  end
end
answer[4] = max(0, done * length - now)
return answer
`);
