// The header fields that tell a client its limits, in each of the forms that
// clients read: draft-ietf-httpapi-ratelimit-headers-11 (structured fields,
// RFC 9651), its older revisions, and X-RateLimit-*.
//
// What does not change from one answer to the next is serialised once, by
// structured-headers (peer dependency), which also checks it; an answer appends
// its integers.

import { SerializeError, serializeItem, serializeParameters } from "structured-headers";
import type { Decision } from "../../engine/bucket/decision.js";
import { shown, unexpected } from "../../engine/errors.js";
import type { Key } from "../../engine/table/key.js";
import { type AnyLimiter, type ToldLimit, toldLimits } from "./async-limiter.js";
import { problemBody, type ProblemType } from "./problem.js";

/**
 * 'draft-11': `RateLimit: "user";r=9;t=1` and `RateLimit-Policy: "user";q=10;w=1`, as of revision 8 on.
 * 'draft-7': `RateLimit: limit=10, remaining=9, reset=1` and `RateLimit-Policy: 10;w=1`.
 * 'draft-6': `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset` and `RateLimit-Policy: 10;w=1`.
 * 'x-ratelimit': `X-RateLimit-Limit`, `X-RateLimit-Remaining`, `X-RateLimit-Reset` (seconds from now).
 * 'none'. `Retry-After` goes with every refusal, whichever it is.
 */
export type HeaderStyle = "draft-11" | "draft-7" | "draft-6" | "x-ratelimit" | "none";
export const headerStyles: readonly HeaderStyle[] = ["draft-11", "draft-7", "draft-6", "x-ratelimit", "none"];

/** The largest integer of a structured field, 31 million years: stands for never. */
export const MOST_SECONDS = 999_999_999_999_999;

/** A longer key is not told to the client. */
const MAX_PARTITION_BYTES = 256;

/** Values of RateLimit that are kept of a limiter, a power of two. */
const REMEMBERED = 1024;

interface Left {
  readonly remaining: number;
  readonly seconds: number;
  readonly limitIndex: number;
  readonly text: string;
}

/** Whole seconds, never fewer than `ms` but for those beyond MOST_SECONDS. */
export function wholeSeconds(ms: number): number {
  return Math.min(MOST_SECONDS, Math.ceil(ms / 1000));
}

/** A limiter as the fields tell it, made anew when its rate or burst was changed. */
export class Described {
  readonly name: string;
  /** Its part of RateLimit-Policy. */
  readonly policyItem: string;
  /** The body of a refusal. */
  readonly refusal: string;
  /** What the name of each of its limits comes to, the rest to be appended. */
  readonly #starts: readonly string[];
  readonly #left: (Left | undefined)[] = new Array<undefined>(REMEMBERED).fill(undefined);
  readonly #policies: readonly ToldLimit[];
  readonly #versions: readonly number[];

  /** Throws RangeError, as for option `option`, if its name cannot be sent in this style. */
  constructor(limiter: AnyLimiter, style: HeaderStyle, problem: ProblemType, option: string) {
    this.name = limiter.name;
    this.refusal = problemBody(problem, limiter.name);
    this.#policies = toldLimits(limiter);
    this.#versions = this.#policies.map((each) => each.version);
    const isNamed = style === "draft-11";
    try {
      this.#starts = this.#policies.map((each) => (isNamed ? `${serializeItem([each.name, new Map()])};r=` : ""));
      this.policyItem = style === "x-ratelimit" || style === "none"
        ? ""
        : this.#policies.map((each) => policyItem(each, isNamed)).join(", ");
    } catch (error) {
      if (!(error instanceof SerializeError)) throw error;
      throw new RangeError(
        `"${option}" expected a limiter with a name of printable ASCII, which 'draft-11' headers carry, got ${
          shown(limiter.name)
        }`,
      );
    }
  }

  /**
   * `"name";r=remaining;t=seconds`. Most answers have been given before: looking
   * one up costs a request 150 ns less than composing it, for Node's check of a
   * header then meets a flat string.
   */
  left({ remaining, limitIndex = 0 }: Decision, seconds: number): string {
    const at = (remaining * 31 + seconds * 7 + limitIndex) & (REMEMBERED - 1);
    const known = this.#left[at];
    if (
      known !== undefined && known.remaining === remaining && known.seconds === seconds
      && known.limitIndex === limitIndex
    ) return known.text;
    // Never is no time: without t nothing is said about it.
    const text = `${this.#starts[limitIndex]}${remaining}${seconds < MOST_SECONDS ? `;t=${seconds}` : ""}`;
    this.#left[at] = { remaining, seconds, limitIndex, text };
    return text;
  }

  /** False once a rate or burst that it tells has changed. */
  get isCurrent(): boolean {
    for (let i = 0; i < this.#policies.length; i++) if (this.#policies[i].version !== this.#versions[i]) return false;
    return true;
  }
}

/** `"name";q=burst;w=seconds`, without the name for older drafts: what a full bucket lets pass, and how long it takes to fill. */
function policyItem({ name, rate, burst, kind }: ToldLimit, isNamed: boolean): string {
  const parameters = new Map<string, number>();
  if (isNamed) parameters.set("q", burst);
  // A window's rate was made from its length, and 1e-12 off.
  const seconds = Math.ceil((burst / rate) * (1 - 1e-12));
  if (kind.hasBurst && seconds > 0 && seconds <= MOST_SECONDS) parameters.set("w", seconds);
  return serializeItem([isNamed ? name : burst, parameters]);
}

/**
 * The fields that tell what `decision` leaves the client: names and values in
 * turn. `policies` is the value of RateLimit-Policy, `seconds` the time until the
 * client has more.
 */
export type Write = (
  policies: string,
  described: Described,
  decision: Decision,
  seconds: number,
  partition: string,
) => string[];

export const writers: Readonly<Record<HeaderStyle, Write>> = {
  "draft-11": (
    policies,
    described,
    decision,
    seconds,
    partition,
  ) => ["RateLimit-Policy", policies, "RateLimit", described.left(decision, seconds) + partition],
  "draft-7": (
    policies,
    _,
    { limit, remaining },
    seconds,
  ) => ["RateLimit-Policy", policies, "RateLimit", `limit=${limit}, remaining=${remaining}, reset=${seconds}`],
  "draft-6": (
    policies,
    _,
    { limit, remaining },
    seconds,
  ) => [
    "RateLimit-Policy",
    policies,
    "RateLimit-Limit",
    `${limit}`,
    "RateLimit-Remaining",
    `${remaining}`,
    "RateLimit-Reset",
    `${seconds}`,
  ],
  "x-ratelimit": (
    _,
    __,
    { limit, remaining },
    seconds,
  ) => ["X-RateLimit-Limit", `${limit}`, "X-RateLimit-Remaining", `${remaining}`, "X-RateLimit-Reset", `${seconds}`],
  none: () => [],
};

/** The parameter `pk` for a key: whose quota it is. Nothing for a key of more than 256 bytes. */
export function partitionOf(key: Key | undefined): string {
  if (key === undefined) return "";
  const bytes = key instanceof Uint8Array ? key : Buffer.from(String(key));
  return bytes.length > MAX_PARTITION_BYTES ? "" : serializeParameters(new Map([["pk", bytes]]));
}

export function checkHeaderStyle(style: unknown): asserts style is HeaderStyle {
  if (!headerStyles.includes(style as HeaderStyle)) {
    throw unexpected(
      "headers",
      headerStyles.map((each) => `'${each}'`).join(", "),
      style,
      "string",
    );
  }
}
