/**
 * Compares what the clients saw with what the policies allow, bucket by bucket.
 *
 * Clients know when they sent a request and when its answer arrived; the decision was
 * made in between. The token bucket alone gives two bounds, and neither needs a
 * tolerance:
 *
 *   no more   From the sending of the first admitted request to the answer of the
 *             last, at most burst + rate x time is admitted.
 *   no less   A decision that finds the bucket full has the whole burst to give, and a
 *             refusal finds less than one token. If the bucket is not full again in
 *             between, everything that flowed in was taken: more than
 *             burst + rate x time - 1, from the answer of the first to the sending of
 *             the second.
 */
import type { AuditReport, LimiterStats } from "sluice";

/** What the clients saw of one bucket. */
export interface Tally {
  requested: number;
  admitted: number;
  /** When the first admitted request was sent. */
  firstAdmittedMs: number;
  /** When the last admitted request was answered. */
  lastAdmittedMs: number;
  /** When the last request that found the bucket full was answered. */
  lastFullMs: number;
  /** When the last refused request was sent. */
  lastRefusedMs: number;
}

export function newTally(): Tally {
  return {
    requested: 0,
    admitted: 0,
    firstAdmittedMs: Infinity,
    lastAdmittedMs: -Infinity,
    lastFullMs: Infinity,
    lastRefusedMs: -Infinity,
  };
}

/** The fewest and the most requests that a limit admits, in the times that its clients saw. */
export function boundsOf(
  { rate, burst }: { rate: number; burst: number },
  { firstAdmittedMs, lastAdmittedMs, lastFullMs, lastRefusedMs }: Tally,
): { least: number; most: number } {
  const within = (fromMs: number, toMs: number) => burst + (rate * (toMs - fromMs)) / 1000;
  const owed = lastRefusedMs > lastFullMs ? within(lastFullMs, lastRefusedMs) : 0;
  return {
    // The smallest integer above `owed - 1`.
    least: owed > 0 ? Math.floor(owed - 1) + 1 : 0,
    most: lastAdmittedMs > firstAdmittedMs ? Math.floor(within(firstAdmittedMs, lastAdmittedMs)) : 0,
  };
}

/** A class of clients to judge. */
export interface Judged {
  name: string;
  /** Name of its limiter in the gateway. */
  policy: string;
  isModest: boolean;
  buckets: { rate: number; burst: number; tally: Tally }[];
}

/** A class, its buckets added up. */
export interface Row {
  name: string;
  policy: string;
  isModest: boolean;
  buckets: number;
  requested: number;
  admitted: number;
  least: number;
  most: number;
  /** Buckets that gave more than their `most`. */
  over: number;
  /** Buckets that gave less than their `least`. */
  under: number;
}

export function rowOf({ name, policy, isModest, buckets }: Judged): Row {
  const row: Row = {
    name,
    policy,
    isModest,
    buckets: buckets.length,
    requested: 0,
    admitted: 0,
    least: 0,
    most: 0,
    over: 0,
    under: 0,
  };
  for (const { tally, ...limit } of buckets) {
    const { least, most } = boundsOf(limit, tally);
    row.requested += tally.requested;
    row.admitted += tally.admitted;
    row.least += least;
    row.most += most;
    if (tally.admitted > most) row.over++;
    if (tally.admitted < least) row.under++;
  }
  return row;
}

export interface Finding {
  name: string;
  /** Undefined if there was not enough to judge by. */
  holds: boolean | undefined;
  text: string;
}

/** What the clients saw besides the buckets. */
export interface Seen {
  /** Answers that were not expected. */
  wrong: number;
  /** Requests without an answer. */
  errors: number;
  /** Whether the run was completed, so that every request was answered. */
  isWhole: boolean;
}

/** What the table counted, as far as the verdict reads it. */
export interface Counted {
  evicted: number;
  limiters: Record<string, Pick<LimiterStats, "allowed" | "denied">>;
}

export function judge(
  rows: readonly Row[],
  { wrong, errors, isWhole }: Seen,
  stats: Counted,
  audit: Pick<AuditReport, "clean">,
): Finding[] {
  const sum = (of: "admitted" | "buckets" | "least" | "over" | "under") =>
    rows.reduce((total, row) => total + row[of], 0);
  const modest = rows.filter((row) => row.isModest);
  const refusedModest = modest.reduce((total, row) => total + row.requested - row.admitted, 0);
  const differing = rows.filter(({ policy, requested, admitted }) =>
    stats.limiters[policy].allowed !== admitted || stats.limiters[policy].denied !== requested - admitted
  ).map(({ name }) => name);
  const counts = differing.length === 0
    ? "counted what the clients saw"
    : `counts differ from what the clients saw: ${differing.join(", ")}`;
  return [
    {
      name: "no more",
      holds: sum("admitted") > 0 ? sum("over") === 0 : undefined,
      text: `${sum("over")} of ${sum("buckets")} buckets gave more than their policy allows`,
    },
    {
      name: "no less",
      holds: isWhole && sum("least") > 0 ? sum("under") === 0 : undefined,
      text: `${sum("under")} of ${sum("buckets")} buckets gave less than their policy owes`,
    },
    {
      name: "no wrong",
      holds: modest.some((row) => row.requested > 0) ? refusedModest === 0 : undefined,
      text: `${refusedModest} requests below their rate were refused`,
    },
    {
      name: "answers",
      holds: isWhole ? wrong + errors === 0 : undefined,
      text: `${wrong} not as expected, ${errors} lost`,
    },
    {
      name: "table",
      holds: isWhole
        ? differing.length === 0 && stats.evicted === 0 && audit.clean
        : audit.clean || undefined,
      text: `${counts}, ${stats.evicted} evicted, audit ${audit.clean ? "clean" : "not clean"}`,
    },
  ];
}
