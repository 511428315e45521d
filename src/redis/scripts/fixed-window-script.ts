// Fixed windows in Redis. Windows begin at the multiples of their length since
// 1970 on the server's clock. A key holds one decimal integer: the number of the
// last window in use and, in ten digits, what was used of it. All windows
// between the present one and that one are used up; a word of an earlier window
// says nothing.
//
// `used` counts what is used from the beginning of the present window on, over
// as many windows as it takes.

import { luaHead, MOST_AHEAD_US } from "./preamble.js";
import { script } from "./script.js";

// A limit's numbers: the limit, and a window in microseconds.
export const fixedWindowScript = script(`${luaHead(2)}
local floor, ceil, max, min, sub, format = math.floor, math.ceil, math.max, math.min, string.sub, string.format
local key, limit, length = KEYS[1], tonumber(ARGV[3]), tonumber(ARGV[4])
local place = floor(now / length)
local stored = redis.call('GET', key)
local used = 0
if stored then
  local last = tonumber(sub(stored, 1, -11)) - place
  if last >= 0 then used = last * limit + min(limit, tonumber(sub(stored, -10))) end
end

-- The window, counted from the present one, in which the last of so many is.
local function windowOf(count)
  if count <= 0 then return 0 end
  return ceil(count / limit) - 1
end

local function write(count)
  if count <= 0 then return redis.call('DEL', key) end
  local last = windowOf(count)
  local word = format('%.0f%010.0f', place + last, count - last * limit)
  redis.call('SET', key, word, 'PXAT', format('%.0f', (place + last + 1) * length / 1000))
end

if op == 'give' then
  if used > 0 then write(used - cost) end
  return 1
end
if op == 'charge' then
  if limit > 0 then write(min(used + cost, (floor(${MOST_AHEAD_US} / length) + 1) * limit)) end
  return 1
end
if op == 'cancel' then
  local at, last, ending, taken = string.match(act, '(%d+) (%d+) (%d+) (%d+)')
  if now > tonumber(at) or used == 0 then return 0 end
  local back = taken - max(0, used - ((last - place) * limit + ending))
  if back <= 0 then return 0 end
  write(used - back)
  return 1
end

local front = windowOf(used)
local next, at = used + cost, front
if next > (front + 1) * limit then
  at = front + 1
  next = at * limit + cost
end
local wait = 0
if cost > limit then wait = -1 elseif at > 0 then wait = (place + at) * length - now end
local isGranted = wait >= 0 and wait <= ${MOST_AHEAD_US} and (most < 0 or wait <= most)
local answer = { isGranted and 1 or 0, 0, wait, 0, 0 }
if isGranted and op == 'take' and cost > 0 then
  write(next)
  used = next
  if keeps then
    -- What is taken at once has no turn that others of its window could be behind.
    local ending = limit
    if wait > 0 then ending = used - at * limit end
    answer[6] = format('%.0f %.0f %.0f %.0f', now + wait, place + at, ending, cost)
  end
end
answer[2] = max(0, limit - used)
if used > 0 then answer[4] = (place + windowOf(used) + 1) * length - now end
return answer
`);
