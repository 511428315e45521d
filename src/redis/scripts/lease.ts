// Leasing tokens of a bucket in Redis, and giving back what a lease had left.
//
// A lease takes what callers wait for, and more to spend later: up to `most`,
// but only a share of what is there, so that other processes find some too.
//
// What is given back must look as if it had never been taken. A token that had
// stayed would have been lost while the bucket was full, so no more goes back
// than the bucket would have had room for at every moment since the lease. The
// lease's stamp says when that was and the bucket's level after it. Since then the
// level rose by its rate at most, and by what other leases gave back; Redis stores
// that sum for twice as long as a lease lasts.

import { BUCKET_NAMES, LOAD_BUCKET, STORE_BUCKET } from "./bucket.js";
import { LUA_NOW } from "./preamble.js";
import { script } from "./script.js";

/** A lease takes at most what is there divided by this, */
const SHARE = 2;
/** if that is at least this many tokens; with fewer, only what is waited for. */
const MIN_LEASE = 8;

/** The bucket's numbers are the last arguments, after `count` others. */
function head(count: number): string {
  const names = BUCKET_NAMES.map((name) => name.replace("@", "1"));
  const values = names.map((_, i) => `tonumber(ARGV[${count + i + 1}])`);
  return `${LUA_NOW}local ${names.join(", ")} = ${values.join(", ")}\n${LOAD_BUCKET}`;
}

/**
 * KEYS     the bucket
 * ARGV[1]  fewest tokens that are of use
 * ARGV[2]  most tokens
 * ARGV[3]  tokens that are waited for
 * ARGV[4+] the bucket's numbers
 *
 * Answers tokens leased, tokens left in the bucket, microseconds until the fewest
 * would be there (0: leased; -1: never), and the stamp.
 */
export const leaseScript = script(`${head(3)}
local least, most, waited = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local level = math.floor(-units1 / interval1)
if least > burst1 then return { 0, math.max(0, level), -1, '' } end
if level < least then return { 0, math.max(0, level), math.ceil((units1 + least * interval1) / scale1), '' } end
local leased = math.min(waited, level)
local share = math.floor(level / ${SHARE})
if share >= ${MIN_LEASE} then leased = math.max(leased, math.min(most, share)) end
units1 = units1 + leased * interval1
${STORE_BUCKET}return { leased, level - leased, 0, string.format('%.0f %.0f', now, units1) }`);

/**
 * KEYS     the bucket; the units that leases of it gave back lately
 * ARGV[1]  tokens to give back
 * ARGV[2]  the stamp of their lease
 * ARGV[3]  microseconds for which a lease may be given back
 * ARGV[4+] the bucket's numbers
 *
 * Answers how many tokens went back, to the nearest.
 */
export const returnScript = script(`${head(3)}
local tokens, stamp, life = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local at, after = string.match(stamp, '^(%d+) (-?%d+)$')
local age = now - at
-- A bucket that is not there was full.
if not stored1 or age < 0 or age > life then return 0 end
local others = tonumber(redis.call('GET', KEYS[2]) or 0)
local highest = math.min(span1, age * scale1 - after + others)
local returned = math.min(tokens * interval1, span1 - highest)
if returned <= 0 then return 0 end
redis.call('SET', KEYS[2], string.format('%.0f', others + returned), 'PX', math.ceil(life / 500))
units1 = units1 - returned
${STORE_BUCKET}return math.floor(returned / interval1 + 0.5)`);
