/** The demo's two reports, as text of at most 80 columns. */

const MARKS = new Map([[true, "ok"], [false, "VIOLATED"], [undefined, "not judged"]]);

function row([name, ...cells]) {
  return name.padEnd(10) + cells.map((cell) => String(cell).padStart(11)).join("");
}

function spread(numbers, show) {
  const sorted = [...numbers].sort((a, b) => a - b);
  return `${show(sorted[Math.floor(sorted.length / 2)])} (${show(sorted[0])} to ${show(sorted.at(-1))})`;
}

/** @param {{ name: string, rounds: { perSecond: number, busyUs: number }[] }[]} races  the first is what the others are compared with */
export function costs(races) {
  const [{ rounds: base }] = races;
  if (races.some(({ rounds }) => rounds.length < base.length || base.length === 0)) {
    return "Interrupted before it was measured.";
  }
  return [
    `${"".padEnd(10)}${"requests/s".padEnd(26)}${"against no limits".padEnd(22)}worker µs a request`,
    ...races.map(({ name, rounds }) =>
      [
        name.padEnd(10),
        spread(rounds.map(({ perSecond }) => perSecond), (n) => n.toFixed(0)).padEnd(26),
        spread(rounds.map(({ perSecond }, i) => perSecond / base[i].perSecond), (n) => n.toFixed(2)).padEnd(22),
        spread(rounds.map(({ busyUs }) => busyUs), (n) => n.toFixed(0)),
      ].join("")
    ),
    "",
    `medians of ${base.length} rounds (least to most); clients, upstream and workers share`,
    `one machine; a worker's time is what its event loop was busy`,
  ].join("\n");
}

/**
 * @param {{ seconds: number, isWhole: boolean, rows: import('./verdict.js').Row[], findings: import('./verdict.js').Finding[] }} run
 */
export function verdict({ seconds, isWhole, rows, findings }) {
  return [
    `${isWhole ? "Done:" : "Interrupted after"} ${seconds.toFixed(1)} s`,
    "",
    row(["class", "buckets", "requested", "refused", "admitted", "least", "most"]),
    ...rows.map(({ name, buckets, requested, admitted, least, most }) =>
      row([name, buckets, requested, requested - admitted, admitted, least, most])
    ),
    "",
    "least, most: what the policies owe and allow in the time that the clients saw,",
    "bucket by bucket, added up; no tolerance",
    "",
    ...findings.map(({ name, holds, text }) => `${name.padEnd(10)} ${MARKS.get(holds)}: ${text}`),
    "",
    conclusion(findings),
  ].join("\n");
}

function conclusion(findings) {
  if (findings.some(({ holds }) => holds === false)) return "VERDICT: VIOLATED";
  if (findings.some(({ holds }) => holds === undefined)) {
    return "VERDICT: nothing violated, but not all could be judged";
  }
  return "VERDICT: EXACT";
}
