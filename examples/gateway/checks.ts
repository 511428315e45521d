/**
 * Checks of single values in a configuration. An error gives the path of the
 * option, what was expected and what was there.
 */

/** An object with no options other than `names`. Messages put `prefix` before the name of an unknown option. */
export function section(
  path: string,
  value: unknown,
  names: readonly string[],
  prefix = `${path}.`,
): Record<string, unknown> {
  object(path, value);
  for (const name of Object.keys(value)) {
    if (!names.includes(name)) {
      throw new TypeError(`"${prefix}${name}" expected one of ${names.join(", ")}, got ${shown(name)}`);
    }
  }
  return value;
}

/** An object with names of the user's choice, each value read by `read`. Undefined reads as an empty object. */
export function entries<Value>(
  path: string,
  value: unknown = {},
  read: (path: string, value: unknown) => Value,
): Map<string, Value> {
  object(path, value);
  return new Map(
    Object.entries(value).map(([name, each]) => {
      if (!/^[\x20-\x7e]{1,100}$/.test(name)) throw unexpected(path, "names of 1 to 100 ASCII characters", name);
      return [name, read(`${path}.${name}`, each)];
    }),
  );
}

function object(path: string, value: unknown): asserts value is Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new TypeError(`"${path}" expected an object, got ${shown(value)}`);
  }
}

/** An integer from `min` to `max`; `fallback` if the value is left out or null. */
export function integer(path: string, value: unknown, min: number, max: number, fallback?: number): number {
  const given = value ?? fallback;
  if (typeof given !== "number" || !Number.isInteger(given) || given < min || given > max) {
    throw unexpected(path, `an integer from ${min} to ${max}`, value);
  }
  return given;
}

/** A string that matches; `fallback` if the value is left out or null. */
export function text(path: string, value: unknown, pattern: RegExp, expected: string, fallback?: string): string {
  const given = value ?? fallback;
  if (typeof given !== "string" || !pattern.test(given)) throw unexpected(path, expected, value);
  return given;
}

/** One of `choices`; `fallback` if the value is left out. */
export function choice<const Choice extends string | number>(
  path: string,
  value: unknown,
  choices: readonly Choice[],
  fallback?: Choice,
): Choice {
  const chosen = value === undefined ? fallback : choices.find((each) => each === value);
  if (chosen === undefined) throw unexpected(path, orList(choices.map(shown)), value);
  return chosen;
}

/** `a, b or c`. */
function orList(words: readonly string[]): string {
  return words.join(", ").replace(/, ([^,]*)$/, " or $1");
}

export function unexpected(path: string, expected: string, got: unknown): RangeError {
  return new RangeError(`"${path}" expected ${expected}, got ${shown(got)}`);
}

/** A value as JSON, cut to 60 characters. */
export function shown(value: unknown): string {
  const json = JSON.stringify(value) ?? "nothing";
  return json.length > 60 ? `${json.slice(0, 60)}...` : json;
}
