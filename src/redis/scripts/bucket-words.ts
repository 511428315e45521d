// The word of a bucket in Redis, for the scripts that read and write one: see
// bucket-script.ts for what it means, and when it expires.

export const BUCKET_WORDS = `
local floor, ceil, max, min, sub, format = math.floor, math.ceil, math.max, math.min, string.sub, string.format

-- A word's distance from now, in units.
local function ahead(word, scale)
  local rest = sub(word, 17)
  local units = (sub(word, 1, 16) - now) * scale
  if rest ~= '' then units = units + floor(rest * (scale / 10 ^ #rest)) end
  return units
end

local function word(units, scale, digits)
  local whole = floor(units / scale)
  local text = format('%.0f', now + whole)
  if digits > 0 then text = text .. format('%0' .. digits .. '.0f', units - whole * scale) end
  return text
end

local function write(key, units, span, scale, digits)
  if units <= -span then return redis.call('DEL', key) end
  local step = max(1, ceil(span / scale / 8e6)) * 1000000
  redis.call('SET', key, word(units, scale, digits), 'PXAT', format('%.0f', (floor((now + (units + span) / scale) / step) + 2) * (step / 1000)))
end
`;
