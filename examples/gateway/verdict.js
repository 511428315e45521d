/**
 * Holds what the clients saw against what the policies allow, bucket by bucket.
 *
 * Clients know when they sent a request and when its answer came; the decision
 * was in between. Two bounds follow from the token bucket alone, and neither
 * needs a tolerance:
 *
 *   no more   from the sending of the first admitted request to the answer of
 *             the last, at most burst + rate x time was admitted.
 *   no less   a decision that found the bucket full had the whole burst before
 *             it, and a refusal found less than one token; if the bucket was
 *             not full again in between, all that came was taken: more than
 *             burst + rate x time - 1, from the answer of the one to the
 *             sending of the other.
 */

/**
 * What the clients saw of one bucket.
 * @typedef {object} Tally
 * @property {number} requested
 * @property {number} admitted
 * @property {number} firstAdmittedMs  when the first was sent
 * @property {number} lastAdmittedMs   when the last was answered
 * @property {number} lastFullMs       when the last that found the bucket full was answered
 * @property {number} lastRefusedMs    when the last that was refused was sent
 */

/** @returns {Tally} */
export function newTally() {
  return {
    requested: 0,
    admitted: 0,
    firstAdmittedMs: Infinity,
    lastAdmittedMs: -Infinity,
    lastFullMs: Infinity,
    lastRefusedMs: -Infinity,
  };
}

/** The fewest and the most that a policy lets pass, as its clients saw the times. */
export function boundsOf({ rate, burst }, { firstAdmittedMs, lastAdmittedMs, lastFullMs, lastRefusedMs }) {
  const within = (fromMs, toMs) => burst + (rate * (toMs - fromMs)) / 1000;
  // More than `owed - 1`, and whole.
  const owed = lastRefusedMs > lastFullMs ? within(lastFullMs, lastRefusedMs) : 0;
  return {
    least: owed > 0 ? Math.floor(owed - 1) + 1 : 0,
    most: lastAdmittedMs > firstAdmittedMs ? Math.floor(within(firstAdmittedMs, lastAdmittedMs)) : 0,
  };
}

/**
 * @typedef {object} Row  a class, its buckets added up
 * @property {string} name
 * @property {string} policy
 * @property {number} buckets
 * @property {number} requested
 * @property {number} admitted
 * @property {number} least
 * @property {number} most
 * @property {number} over    buckets with more than their most
 * @property {number} under   buckets with less than their least
 * @property {boolean} isModest
 */

/** @param {{ name: string, policy: string, isModest: boolean, buckets: { rate: number, burst: number, tally: Tally }[] }} classOfClients @returns {Row} */
export function rowOf({ name, policy, isModest, buckets }) {
  const row = {
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

/**
 * @typedef {object} Finding
 * @property {string} name
 * @property {boolean | undefined} holds  undefined: there was not enough to judge by
 * @property {string} text
 */

/**
 * @param {Row[]} rows
 * @param {{ wrong: number, errors: number, isWhole: boolean }} seen  `isWhole` if every request was answered
 * @param {import('sluice').SluiceStats} stats
 * @param {import('sluice').AuditReport} audit
 * @returns {Finding[]}
 */
export function judge(rows, { wrong, errors, isWhole }, stats, audit) {
  const sum = (of) => rows.reduce((total, row) => total + row[of], 0);
  const modest = rows.filter((row) => row.isModest);
  const refusedModest = modest.reduce((total, row) => total + row.requested - row.admitted, 0);
  const off = rows.filter(({ policy, requested, admitted }) =>
    stats.limiters[policy].allowed !== admitted || stats.limiters[policy].denied !== requested - admitted
  );
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
      text: `${refusedModest} requests of those below their rate were refused`,
    },
    {
      name: "answers",
      holds: isWhole ? wrong + errors === 0 : undefined,
      text: `${wrong} not as expected, ${errors} lost`,
    },
    {
      name: "table",
      holds: isWhole ? off.length === 0 && stats.evicted === 0 && audit.clean : audit.clean || undefined,
      text: `${
        off.length === 0
          ? "counted what the clients saw"
          : `counted otherwise than the clients saw: ${off.map((row) => row.name)}`
      }, ${stats.evicted} evicted, audit ${audit.clean ? "clean" : "not clean"}`,
    },
  ];
}
