// Options objects: an unknown name is an error that names the nearest known one.

import { shown } from "./errors.js";

/**
 * Throws TypeError unless `value` is an options object whose names are all in `known`.
 * Otherwise a misspelt option would silently leave a limit unset.
 */
export function checkOptions(value: unknown, known: readonly string[], name = "options"): void {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new TypeError(`"${name}" expected an object, got ${shown(value)}`);
  }
  for (const option in value) {
    if (!known.includes(option)) throw unknownOption(option, known, name);
  }
}

/** The error for an unknown option. */
function unknownOption(option: string, known: readonly string[], name: string): TypeError {
  const [nearest] = [...known].sort((a, b) => gap(option, a) - gap(option, b));
  const isNear = nearest !== undefined && gap(option, nearest) <= Math.max(2, option.length / 3);
  const hint = isNear
    ? `did you mean ${shown(nearest)}?`
    : known.length
    ? `known are ${known.join(", ")}`
    : "none is known";
  return new TypeError(`"${name}" has no option ${shown(option)}; ${hint}`);
}

/** How far a word is from a known one: 0 if one begins with the other, as "keyGenerator" with "key". */
function gap(option: string, known: string): number {
  return option.startsWith(known) || known.startsWith(option) ? 0 : distance(option, known);
}

/** Single-character edits, without regard to case, that make one word the other (Levenshtein, 1965). */
function distance(from: string, to: string): number {
  const [a, b] = [from.slice(0, 64).toLowerCase(), to.toLowerCase()];
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
    }
    row = next;
  }
  return row[b.length];
}
