// Leasing tokens of a bucket in Redis, and giving back what a lease had left.
//
// A lease takes what somebody waits for, and more to spend later: up to `most`,
// but of what is there only a share, so that other processes find some too.
//
// What is given back must look as if it had never been taken. A token that had
// stayed would have been lost while the bucket was full, so no more goes back
// than the bucket would have had room for at every moment since the lease. Its
// level then is known from the lease's stamp (when, and the level after it), and
// since then it rose by its rate at most, and by what other leases gave back, of
// which there is a sum for twice as long as a lease lasts.
//
// KEYS     the bucket; the units that leases of it gave back lately
// ARGV[1]  what to do: 'lease' or 'give back'
// ARGV[2]  tokens: fewest that are of use, or so many to give back
// ARGV[3]  of a lease: most tokens
// ARGV[4]  of a lease: tokens that are waited for; to give back: its stamp
// ARGV[5+] the bucket's numbers (see bucket-script.ts), and microseconds for
//          which a lease may be given back
//
// The answer to 'lease': tokens leased, tokens left in the bucket, microseconds
// until the fewest would be there (0: leased; -1: never), and the stamp. To
// 'give back': how many went back, to the nearest.

import { BUCKET_WORDS } from "./bucket-words.js";
import { LUA_NOW } from "./preamble.js";
import { script } from "./script.js";

/** A lease takes at most one part in so many of what is there, */
const SHARE = 2;
/** if that is at least so much: of less, nobody has any to keep for later. */
const LEAST_LEASE = 8;

export const leaseScript = script(
  `${LUA_NOW}local op, cost, most, act = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
${BUCKET_WORDS}local key, back = KEYS[1], KEYS[2]
local interval, burst, digits, life = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[9])
local scale = 10 ^ digits
local span = burst * interval
local stored = redis.call('GET', key)
local units = -span
if stored then units = max(units, ahead(stored, scale)) end
local level = floor(-units / interval)

if op == 'lease' then
  if cost > burst then return { 0, max(0, level), -1, '' } end
  if level < cost then return { 0, max(0, level), ceil((units + cost * interval) / scale), '' } end
  local leased = min(tonumber(act), level)
  local share = floor(level / ${SHARE})
  if share >= ${LEAST_LEASE} then leased = max(leased, min(most, share)) end
  units = units + leased * interval
  write(key, units, span, scale, digits)
  return { leased, level - leased, 0, format('%.0f %.0f', now, units) }
end

local at, after = string.match(act, '^(%d+) (-?%d+)$')
local age = now - at
-- A bucket that is not there was full.
if not stored or age < 0 or age > life then return 0 end
local others = tonumber(redis.call('GET', back) or 0)
local highest = min(span, age * scale - after + others)
local returned = min(cost * interval, span - highest)
if returned <= 0 then return 0 end
redis.call('SET', back, format('%.0f', others + returned), 'PX', ceil(life / 500))
write(key, units - returned, span, scale, digits)
return floor(returned / interval + 0.5)
`,
);
