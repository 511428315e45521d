// What all scripts begin with: the arguments, the server's clock, and words.
//
// A script is one decision: it reads its keys, decides by the server's own
// clock and writes at most once a key. Lua counts in doubles, which are exact
// up to 2^53; the present moment takes 51 of these bits when it is counted in
// microseconds, so nothing finer than that is ever added to it. What is finer
// is kept apart, as a distance from now.
//
// KEYS     one for each limit, all in one hash slot
// ARGV[1]  what to do: 'take', 'reserve', 'peek', 'give' back, 'charge', 'cancel'
// ARGV[2]  cost
// ARGV[3+] the limits, in as many numbers each as their kind has
// then     of a reservation the longest wait to accept, microseconds (-1 is no
//          bound); of a cancel what the reservation answered as its act
//
// The answer to 'take', 'reserve' and 'peek', integers but the last:
//   granted (1 or 0), tokens left, microseconds until it may act or, refused,
//   until it would be granted (-1: never), microseconds until all is as new,
//   the number of the limit that decided, and of what was reserved its act.
// To 'cancel': 1 if something went back.

/** How far ahead windows may be reserved, microseconds: 35 years. */
export const MOST_AHEAD_US = 2 ** 50;

/** The server's own time, microseconds since 1970. */
export const LUA_NOW = `local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
`;

/** Reads the arguments of a script whose limits have so many numbers each. */
export function luaHead(numbersOfALimit: number): string {
  return `
local op, cost = ARGV[1], tonumber(ARGV[2])
local last = ARGV[#KEYS * ${numbersOfALimit} + 3]
local keeps, most, act = op == 'reserve', 0, last
if keeps then
  op = 'take'
  most = tonumber(last)
end
${LUA_NOW}`;
}
