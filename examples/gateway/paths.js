/**
 * What an upstream may take a request's path for. Whether it resolves `/../`,
 * and before or after it decodes, is its own affair; a route's limit has to hold
 * whichever way it reads. So a path has two readings, and a route counts what
 * comes to it by either: rather a request too many than a way around.
 *
 * Both are decoded, in lower case, with `/` for `\`, one `/` for several, and
 * without query and parameters (`;v=1`); one with `/../` resolved, one as it stands.
 */
import { posix } from "node:path";

/** @param {string} url  as on the request line @returns {string[]} */
export function readingsOf(url) {
  const path = url.replace(/[?#].*/s, "")
    // Routes are ASCII, so bytes do; decodeURIComponent would refuse some of them.
    .replace(/%([\da-f]{2})/gi, (_, hex) => String.fromCharCode(parseInt(hex, 16)))
    .toLowerCase()
    .replace(/;[^/\\]*/g, "")
    .replace(/[/\\]+/g, "/");
  const resolved = posix.normalize(path);
  return path === resolved ? [path] : [path, resolved];
}

/** Whether one of the readings is `path` or below it. */
export function isBelow(readings, path) {
  const lower = path.toLowerCase();
  const below = lower === "/" ? lower : `${lower}/`;
  return readings.some((reading) => reading === lower || reading.startsWith(below));
}
