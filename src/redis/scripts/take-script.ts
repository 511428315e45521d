// What is asked most, in as few words as it takes: 'take' of a bucket with one
// limit, of a fixed window or of the two-window counter, on the words of
// bucket-script.ts, fixed-window-script.ts and sliding-counter-script.ts.
//
// The limit is part of the script, of which there is so one a limiter; the cost
// is its only argument, left out if it is 1. It answers few integers, from which
// all of the answer follows. On Redis 7.0 and ioredis every argument that
// is not sent and every integer that is not answered saves 0.2 to 0.3 us at
// either end, of 10 to 15 in all.
//
// A word of at most 19 digits is an integer to Redis as well, which adds to it
// in place. To set its time to live costs more than all the rest: of a bucket it
// is moved on only when the moment at which it is full has passed a step of the
// grid of bucket-script.ts.

import type { Reply } from "../connection/caller.js";
import type { FixedPoint } from "./fixed-point.js";
import { LUA_NOW } from "./preamble.js";
import { type Script, script } from "./script.js";

export interface Take {
  readonly script: Script;
  /** What its answer to a cost means. */
  read(answer: unknown, cost: number): Reply;
}

const LUA_COST = `local key, cost = KEYS[1], 1
if ARGV[1] then cost = tonumber(ARGV[1]) end
local stored = redis.call('GET', key)
`;

/**
 * Of a bucket. It answers how far after now, in units, the bucket would be empty
 * if the cost were taken: that was taken if it is not later than now.
 */
export function takeOfBucket({ interval, digits }: FixedPoint, burst: number): Take {
  const scale = 10 ** digits;
  const span = burst * interval;
  /** Of the grid, microseconds. */
  const step = Math.max(1, Math.ceil(span / scale / 8e6)) * 1_000_000;
  const last = (
    text: string,
  ): string => (digits === 0 ? text : `${text} .. string.format('%0${digits}.0f', next - whole * ${scale})`);
  const source = `${LUA_NOW}${LUA_COST}local units, raw = -${span}, nil
if stored then
  local rest = #stored - 16
  if rest == 0 then
    raw = (stored - now) * ${scale}
  else
    raw = (string.sub(stored, 1, 16) - now) * ${scale} + math.floor(string.sub(stored, 17) * (${scale} / 10 ^ rest))
  end
  if raw > units then units = raw end
  if rest ~= ${digits} then raw = nil end
end
local next = units + cost * ${interval}
if next > 0 or cost > ${burst} or cost == 0 then return next end
local full = now + (next + ${span}) / ${scale}
local step = full - full % ${step}
if raw and ${digits <= 3} then
  if raw == units and cost == 1 then
    redis.call('INCRBY', key, '${interval}')
  else
    redis.call('INCRBY', key, string.format('%.0f', next - raw))
  end
  full = now + (raw + ${span}) / ${scale}
  if full - full % ${step} ~= step then redis.call('PEXPIREAT', key, string.format('%.0f', step / 1000 + ${
    step / 500
  })) end
else
  local whole = math.floor(next / ${scale})
  redis.call('SET', key, ${last(`string.format('%.0f', now + whole)`)}, 'PXAT', string.format('%.0f', step / 1000 + ${
    step / 500
  }))
end
return next
`;
  return {
    script: script(source),
    read(answer, cost) {
      const need = answer as number;
      const granted = need <= 0 && cost <= burst;
      const units = granted ? need : need - cost * interval;
      const left = units < 0 ? Math.min(burst, Math.floor(-units / interval)) : 0;
      const waitUs = cost > burst ? -1 : need > 0 ? Math.ceil(need / scale) : 0;
      return [granted ? 1 : 0, left, waitUs, Math.max(0, Math.ceil((units + span) / scale)), 0];
    },
  };
}

/** Largest word of a window that Redis takes for an integer: nine digits and the ten of its count. */
const MOST_WINDOWS = 900_000_000;

/**
 * Of a fixed window. It answers what would be used of this window and those
 * ahead if the cost were taken, and how long ago this one began: the cost was
 * taken if that is not above the limit.
 */
export function takeOfWindow(limit: number, lengthUs: number): Take {
  const source = `${LUA_NOW}${LUA_COST}local place = math.floor(now / ${lengthUs})
local used, isHere = 0, false
if stored then
  local last = string.sub(stored, 1, -11) - place
  isHere = last == 0
  if last >= 0 then used = last * ${limit} + math.min(${limit}, string.sub(stored, -10)) end
end
local next = used + cost
if next <= ${limit} and cost > 0 then
  if isHere and place <= ${MOST_WINDOWS} then
    redis.call('INCRBY', key, cost)
  else
    redis.call('SET', key, string.format('%.0f%010.0f', place, next), 'PXAT', string.format('%.0f', (place + 1) * ${
    lengthUs / 1000
  }))
  end
end
return { next, now - place * ${lengthUs} }
`;
  /** The window, from the present one on, in which the last of so many is. */
  const windowOf = (count: number): number => (count <= 0 ? 0 : Math.ceil(count / limit) - 1);
  return {
    script: script(source),
    read(answer, cost) {
      const [next, elapsedUs] = answer as [number, number];
      const used = next <= limit ? next : next - cost;
      const front = windowOf(used);
      const place = used + cost > (front + 1) * limit ? front + 1 : front;
      const granted = next <= limit;
      const waitUs = granted ? 0 : cost > limit ? -1 : place * lengthUs - elapsedUs;
      return [
        granted ? 1 : 0,
        Math.max(0, limit - used),
        waitUs,
        used > 0 ? (windowOf(used) + 1) * lengthUs - elapsedUs : 0,
        0,
      ];
    },
  };
}

/**
 * Of the two-window counter, for costs up to the limit. It answers what was used
 * of the last window in use and how long ago the present one began; then, as far
 * as they are not 0, what was used of the window before that last one, and how
 * many windows ahead of the present one it is. Whether the cost was taken follows
 * by the same arithmetic. A count of the present window is overwritten in place,
 * and its time to live stays.
 */
export function takeOfCounter(limit: number, lengthUs: number, tickUs: number): Take {
  const ticks = Math.ceil(lengthUs / tickUs);
  const source = `${LUA_NOW}${LUA_COST}local place = math.floor(now / ${lengthUs})
local elapsed = now - place * ${lengthUs}
local ahead, before, present, isHere = 0, 0, 0, false
if stored then
  ahead = string.sub(stored, 1, -21) - place
  isHere = ahead == 0
  if ahead >= 0 then
    before, present = tonumber(string.sub(stored, -20, -11)), tonumber(string.sub(stored, -10))
  else
    if ahead == -1 then before = tonumber(string.sub(stored, -10)) end
    ahead = 0
  end
end
local over = before + present + cost - ${limit}
if ahead == 0 and cost > 0 and (over <= 0 or (before > 0 and math.ceil(${ticks} * over / before) <= math.floor(elapsed / ${tickUs}))) then
  local count = string.format('%010.0f', present + cost)
  if isHere then
    redis.call('SETRANGE', key, #stored - 10, count)
  else
    redis.call('SET', key, string.format('%.0f%010.0f', place, before) .. count, 'PXAT', string.format('%.0f', (place + 2) * ${
    lengthUs / 1000
  }))
  end
end
if ahead > 0 then return { present, elapsed, before, ahead } end
if before > 0 then return { present, elapsed, before } end
return { present, elapsed }
`;
  return {
    script: script(source),
    read(answer, cost) {
      const [present, elapsedUs, before = 0, ahead = 0] = answer as number[];
      const elapsed = Math.floor(elapsedUs / tickUs);
      let waitUs = -1;
      for (let window = ahead, older = before, newer = present; waitUs < 0 && window <= ahead + 2; window++) {
        const from = window === 0 ? elapsed : 0;
        const over = older + newer + cost - limit;
        const first = over <= 0 ? from : older > 0 ? Math.max(from, Math.ceil((ticks * over) / older)) : ticks;
        if (first < ticks) waitUs = window > 0 || first > from ? window * lengthUs + first * tickUs - elapsedUs : 0;
        older = newer;
        newer = 0;
      }
      const used = waitUs === 0 ? present + cost : present;
      const left = ahead > 0 ? 0 : Math.max(0, limit - used - Math.ceil((before * (ticks - elapsed)) / ticks));
      const fullUs = Math.max(0, (ahead + (used > 0 ? 2 : before > 0 ? 1 : 0)) * lengthUs - elapsedUs);
      return [waitUs === 0 ? 1 : 0, left, waitUs, fullUs, 0];
    },
  };
}
