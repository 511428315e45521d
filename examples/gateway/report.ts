/** The demo's two reports, as text of at most 90 columns. */
import type { Finding, Row } from "./verdict.js";

/** One measurement of a race. */
export interface Round {
  /** Requests per second. */
  perSecond: number;
  /** How long the workers' event loops were busy, µs per request. */
  busyUs: number;
}

/** Median, least and most. */
function spread(numbers: readonly number[], digits: number): string {
  const sorted = [...numbers].sort((a, b) => a - b).map((n) => n.toFixed(digits));
  return `${sorted[Math.floor(sorted.length / 2)]} (${sorted[0]} to ${sorted.at(-1)})`;
}

/** What the limits cost. The first race is the one that the others are compared with. */
export function costReport(races: readonly { name: string; rounds: readonly Round[] }[]): string {
  const base = races[0].rounds;
  if (races.some(({ rounds }) => rounds.length < base.length || base.length === 0)) {
    return "Interrupted before it was measured.";
  }
  return [
    `${"".padEnd(10)}${"requests/s".padEnd(26)}${"against no limits".padEnd(22)}worker µs a request`,
    ...races.map(({ name, rounds }) =>
      [
        name.padEnd(10),
        spread(rounds.map(({ perSecond }) => perSecond), 0).padEnd(26),
        spread(rounds.map(({ perSecond }, i) => perSecond / base[i].perSecond), 2).padEnd(22),
        spread(rounds.map(({ busyUs }) => busyUs), 0),
      ].join("")
    ),
    "",
    `Medians of ${base.length} rounds (least to most). Clients, upstream and workers share one`,
    "machine. A worker's time is how long its event loop was busy.",
  ].join("\n");
}

/** What the clients got, against what the policies allow. */
export function verdictReport(
  { seconds, isWhole, rows, findings }: {
    seconds: number;
    isWhole: boolean;
    rows: readonly Row[];
    findings: readonly Finding[];
  },
): string {
  return [
    `${isWhole ? "Done:" : "Interrupted after"} ${seconds.toFixed(1)} s`,
    "",
    line(["class", "buckets", "requested", "refused", "admitted", "least", "most"]),
    ...rows.map(({ name, buckets, requested, admitted, least, most }) =>
      line([name, buckets, requested, requested - admitted, admitted, least, most])
    ),
    "",
    "least, most: what the policies owe and allow in the time that the clients saw,",
    "bucket by bucket, added up, without tolerance",
    "",
    ...findings.map(({ name, holds, text }) => `${name.padEnd(10)} ${markOf(holds)}: ${text}`),
    "",
    conclusion(findings),
  ].join("\n");
}

function line([name, ...cells]: (string | number)[]): string {
  return String(name).padEnd(10) + cells.map((cell) => String(cell).padStart(11)).join("");
}

function markOf(holds: boolean | undefined): string {
  return holds === undefined ? "not judged" : holds ? "ok" : "VIOLATED";
}

function conclusion(findings: readonly Finding[]): string {
  if (findings.some(({ holds }) => holds === false)) return "VERDICT: VIOLATED";
  if (findings.some(({ holds }) => holds === undefined)) {
    return "VERDICT: nothing violated, but not everything could be judged";
  }
  return "VERDICT: EXACT";
}
