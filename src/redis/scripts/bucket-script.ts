// Token and leaky buckets in Redis: the virtual-time word of this library's own
// table (GCRA, ITU-T I.371), counted in time. A key holds the moment at which
// its bucket is (or was) empty, as one decimal integer; see fixed-point.ts for
// its digits. It expires after the bucket is full again: at the next step but
// one of a grid of an eighth of the time to refill, at least a second, so that
// take-script.ts has to move that seldom.
//
// Several limits are a key each, and are charged together or not at all. What
// is reserved is charged as of the moment at which all have room.

import { BUCKET_WORDS } from "./bucket-words.js";
import { MOST_UNITS } from "./fixed-point.js";
import { luaHead } from "./preamble.js";
import { script } from "./script.js";

// A limit's numbers: units a token, burst, decimal places, units that a
// reservation may reach ahead (a queue's length).
export const bucketScript = script(`${luaHead(4)}${BUCKET_WORDS}
local count = #KEYS
local acts = {}
if op == 'cancel' then
  for each in string.gmatch(act, '%S+') do acts[#acts + 1] = each end
  if now > tonumber(acts[1]) then return 0 end
end

local limits = {}
local at, by, restored = 0, 0, 0
local isGranted = true
for i = 1, count do
  local from = i * 4 - 2
  local interval, burst, digits, reach = tonumber(ARGV[from + 1]), tonumber(ARGV[from + 2]), tonumber(ARGV[from + 3]), tonumber(ARGV[from + 4])
  local scale = 10 ^ digits
  local span = burst * interval
  local stored = redis.call('GET', KEYS[i])
  local units = -span
  if stored then units = max(units, ahead(stored, scale)) end
  if op == 'take' or op == 'peek' then
    local need = units + cost * interval
    local wait = 0
    if cost > burst then wait = -1 elseif need > 0 then wait = ceil(need / scale) end
    if wait < 0 or need > reach or (most >= 0 and wait > most) then
      if isGranted then by = i end
      isGranted = false
    end
    if wait < 0 or at < 0 then at = -1 elseif wait > at then at = wait end
    limits[i] = { interval, burst, digits, scale, span, units, wait }
  elseif op == 'charge' then
    write(KEYS[i], min(${MOST_UNITS}, units + cost * interval), span, scale, digits)
  elseif stored and op == 'give' then
    write(KEYS[i], units - cost * interval, span, scale, digits)
  elseif stored then
    local back = acts[i * 2 + 1] - max(0, units - ahead(acts[i * 2], scale))
    if back > 0 then
      write(KEYS[i], units - back, span, scale, digits)
      restored = 1
    end
  end
end
if op == 'cancel' then return restored end
if op ~= 'take' and op ~= 'peek' then return 1 end

local fewest, full = nil, 0
local words = { isGranted and format('%.0f', now + at) }
for i = 1, count do
  local interval, burst, digits, scale, span, units, wait = unpack(limits[i])
  if isGranted and op == 'take' and cost > 0 then
    local base = units
    if wait < at then base = max(units, at * scale - span) end
    local next = base + cost * interval
    write(KEYS[i], next, span, scale, digits)
    if keeps then
      words[i * 2] = word(max(next, 0), scale, digits)
      words[i * 2 + 1] = format('%.0f', next - units)
    end
    units = next
  end
  local left = min(burst, max(0, floor(-units / interval)))
  if by == i or (by == 0 and (fewest == nil or left < fewest[1])) then fewest = { left, i } end
  full = max(full, ceil((units + span) / scale))
end
local answer = { isGranted and 1 or 0, fewest[1], at, full, fewest[2] - 1 }
if keeps and isGranted and cost > 0 then answer[6] = table.concat(words, ' ') end
return answer
`);
