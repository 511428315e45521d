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

import { luaHead, MOST_AHEAD_US } from "./preamble.js";
import { script } from "./script.js";

// A limit's numbers: the limit, a window in microseconds, and a tick in microseconds.
export const slidingCounterScript = script(`${luaHead(3)}
local floor, ceil, max, min, sub, format = math.floor, math.ceil, math.max, math.min, string.sub, string.format
local key, limit, length, tick = KEYS[1], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local MOST_COUNT = 9999999999
local ticks = ceil(length / tick)
local place = floor(now / length)
local elapsed = floor((now - place * length) / tick)
local stored = redis.call('GET', key)
local last, before, present = place, 0, 0
if stored then
  local window, older, newer = tonumber(sub(stored, 1, -21)), tonumber(sub(stored, -20, -11)), tonumber(sub(stored, -10))
  if window >= place then
    last, before, present = window, older, newer
  elseif window == place - 1 then
    before = newer
  end
end

local function write()
  if last <= place and before + present == 0 then return redis.call('DEL', key) end
  redis.call('SET', key, format('%.0f%010.0f%010.0f', last, before, present), 'PXAT', format('%.0f', (last + 2) * length / 1000))
end

if op == 'give' then
  if stored then
    local newer = min(cost, present)
    present = present - newer
    before = max(0, before - (cost - newer))
    write()
  end
  return 1
end
if op == 'charge' then
  present = min(MOST_COUNT, present + cost)
  write()
  return 1
end
if op == 'cancel' then
  local at, window, taken = string.match(act, '(%d+) (%d+) (%d+)')
  window = tonumber(window)
  local held = 0
  if window == last then held = present elseif window == last - 1 then held = before end
  if now > tonumber(at) or held == 0 then return 0 end
  if window == last then present = max(0, present - taken) else before = max(0, before - taken) end
  write()
  return 1
end

-- The first window from the last one on, and the tick in it, at which the cost fits.
local wait, at = -1, last
if cost <= limit then
  local older, newer = before, present
  for window = last, last + 2 do
    local from = 0
    if window == place then from = elapsed end
    local over = older + newer + cost - limit
    local first = from
    if over > 0 then
      if older > 0 then first = max(from, ceil(ticks * over / older)) else first = ticks end
    end
    if first < ticks then
      at = window
      wait = 0
      if window > place or first > from then wait = window * length + first * tick - now end
      break
    end
    older, newer = newer, 0
  end
end
local isGranted = wait >= 0 and wait <= ${MOST_AHEAD_US} and (most < 0 or wait <= most)
local answer = { isGranted and 1 or 0, 0, wait, 0, 0 }
if isGranted and op == 'take' and cost > 0 then
  if at == last + 1 then before, present = present, 0 elseif at > last then before, present = 0, 0 end
  last, present = at, present + cost
  write()
  if keeps then answer[6] = format('%.0f %.0f %.0f', now + wait, at, cost) end
end
if last == place then answer[2] = max(0, limit - present - ceil(before * (ticks - elapsed) / ticks)) end
local done = last
if present > 0 then done = last + 2 elseif before > 0 then done = last + 1 end
answer[4] = max(0, done * length - now)
return answer
`);
