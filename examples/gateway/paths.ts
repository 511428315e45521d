/**
 * The paths that an upstream may read a request's path as. Upstreams differ in
 * whether they resolve `/../`, and whether before or after decoding. A route's limit
 * must hold either way, so a path has up to two readings, and a route counts a
 * request if either belongs to it: one request too many rather than a way around the
 * limit.
 *
 * Both readings are decoded, in lower case, with `/` for `\`, one `/` for several,
 * and without query and parameters (`;v=1`). `/../` is resolved in one of them.
 */
import { posix } from "node:path";

/** The readings of a request target. */
export function readingsOf(target: string): string[] {
  const path = target.replace(/[?#].*/s, "")
    // Routes are ASCII, so decoding byte by byte is enough; decodeURIComponent would throw for some targets.
    .replace(/%([\da-f]{2})/gi, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)))
    .toLowerCase()
    .replace(/;[^/\\]*/g, "")
    .replace(/[/\\]+/g, "/");
  const resolved = posix.normalize(path);
  return path === resolved ? [path] : [path, resolved];
}

/** Whether one of the readings is `path` or below it. */
export function isBelow(readings: readonly string[], path: string): boolean {
  const lower = path.toLowerCase();
  const below = lower === "/" ? lower : `${lower}/`;
  return readings.some((reading) => reading === lower || reading.startsWith(below));
}
