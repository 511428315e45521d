// Defining policies: a name, a kind and limits become a record of the table,
// once; after that every thread finds it there.

import { wholeNanoseconds } from "../clock-cell.js";
import { shown, SluiceError } from "../errors.js";
import type { Table } from "../table/table.js";
import type { Definition } from "./algorithms.js";
import type { BucketSegment } from "./bucket-segment.js";
import { checkLimit, kinds, type PolicyKind } from "./kinds.js";
import { Policy, waitForOwner } from "./policy.js";
import { type Limits, scaleLimits, stageSegment } from "./segment.js";

const encoder = new TextEncoder();

/** What a policy may have besides its limits. */
export interface PolicyTraits extends Partial<Pick<Definition, "isShadow" | "alignMs" | "ring">> {
  /** The limits of a policy that has several. */
  readonly joined?: readonly Policy[];
}

/**
 * Appends a policy, unless `find` knows one of that name with the same kind and limits.
 * @throws SluiceError ERR_SLUICE_POLICY_EXISTS if it has others,
 * ERR_SLUICE_TOO_MANY_POLICIES if the table has no record left, ERR_SLUICE_LOCKED
 * if a thread was stopped while it defined a policy; RangeError for a limit that
 * is too large for its window.
 */
export function definePolicy(
  table: Table,
  name: string,
  kindName: PolicyKind,
  limits: Limits,
  { isShadow = false, alignMs = 0, ring = 0, joined = [] }: PolicyTraits,
  find: (name: string) => Policy | undefined,
): Policy {
  const { at, kernel, scratch } = table;
  const kind = kinds[kindName];
  const algorithm = at[kind.algorithm] << at.ALGORITHM_SHIFT;
  const flags = kind.flags.reduce((sum, flag) => sum | at[flag], algorithm | (isShadow ? at.FLAG_SHADOW : 0));
  checkLimit(kind, limits);
  for (let attempt = 0;;) {
    const count = table.header.policyCount;
    const existing = find(name);
    if (existing) {
      const { declared } = existing;
      const isSame = declared.rate === limits.rate && declared.burst === limits.burst
        && declared.extra === limits.extra && declared.flags === flags;
      if (existing.kind === kind && isSame && existing.limits.length === joined.length) return existing;
      throw new SluiceError(
        "ERR_SLUICE_POLICY_EXISTS",
        `policy ${JSON.stringify(name)} exists as ${
          described(table, existing.kind.name, declared, declared.flags)
        }, got ${described(table, kindName, limits, flags)}; use another name, or setRate(), setBurst() or setLimit()`,
        { limiter: name },
      );
    }
    if (count + 1 >= at.POLICY_COUNT) {
      throw new SluiceError(
        "ERR_SLUICE_TOO_MANY_POLICIES",
        `a table holds ${at.POLICY_COUNT - 1} policies and all are in use; one policy serves any number of keys`,
        { limiter: name },
      );
    }
    const nameBytes = encoder.encode(name);
    const beginNs = wholeNanoseconds(table.clock.now()) - wholeNanoseconds(alignMs);
    const beginning = { nowNs: beginNs, flags, isGlobalOnly: kind.isGlobalOnly, ring, kernel: scaleLimits(table) };
    const segment = kind.segments.first(limits, beginning);
    stageSegment(table, kind.segments, segment);
    scratch.stagePolicy(
      nameBytes,
      joined.map(({ number }) => number),
      kind.startsEmpty ? (segment as BucketSegment).v0 : 0n,
    );
    const { rate, burst, extra } = limits;
    const appended = kernel.append(count, kind.number, nameBytes.length, rate, burst, extra, flags);
    if (appended > 0) return new Policy(table, appended);
    if (appended === at.POLICY_LOCKED) waitForOwner(attempt++);
  }
}

function described({ at }: Table, kind: PolicyKind, limits: Limits, flags: number): string {
  return `${kind} { ${kinds[kind].describe(limits)}${flags & at.FLAG_SHADOW ? ", shadow: true" : ""} }`;
}

/**
 * Checks a policy's name.
 * @throws TypeError unless it is a string, RangeError unless it has 1 to 96 bytes
 * of UTF-8 and no lone surrogate.
 */
export function checkName(table: Table, name: unknown): asserts name is string {
  const max = table.at.POLICY_NAME_MAX;
  if (typeof name !== "string") throw new TypeError(`"name" expected a string, got ${shown(name)}`);
  const length = encoder.encode(name).length;
  if (length === 0 || length > max || /\p{Surrogate}/u.test(name)) {
    throw new RangeError(
      `"name" expected 1 to ${max} bytes of UTF-8, got ${length}${
        length && length <= max ? " with a lone surrogate" : ""
      }`,
    );
  }
}
