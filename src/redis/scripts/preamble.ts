// What scripts have in common.
//
// A script is one decision: it reads its keys, decides by the server's own clock
// and writes each key at most once. Lua counts in doubles, which are exact up to
// 2^53. The present moment takes 51 of these bits when it is counted in
// microseconds, so nothing finer than a microsecond is ever added to it; what is
// finer is kept apart, as a distance from now.

/** The server's own time, microseconds since 1970. */
export const LUA_NOW = `local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
`;

/** How far ahead windows may be reserved, microseconds: 35 years. */
export const MAX_AHEAD_US = 2 ** 50;

/** Whether a reservation is granted in a window: after `wait`, if that is at most `most` (-1: no bound). */
export const LUA_IS_GRANTED = `local isGranted = wait <= ${MAX_AHEAD_US} and (most < 0 or wait <= most)
if not isGranted or cost == 0 then return { isGranted and 1 or 0, wait } end
`;

/** Repeats `text` for each of `count` limits, with the limit's number for @. */
export function eachLimit(count: number, text: string): string {
  return Array.from({ length: count }, (_, i) => text.replaceAll("@", String(i + 1))).join("");
}
