/** The gateway's demo, run as a user runs it, and every check of its verdict. */
import { describe, expect, it } from "vitest";
import { judge, rowOf, type Tally } from "../../examples/gateway/verdict.js";
import { startGateway } from "./gateway.js";

/** The numbers that are printed for a class. */
function classRow(out: string, name: string) {
  const [buckets, requested, refused, admitted, least, most] = new RegExp(`^${name} .*$`, "m").exec(out)![0].match(
    /\d+/g,
  )!.map(Number);
  return { buckets, requested, refused, admitted, least, most };
}

describe("the demo", () => {
  it("reports what limits cost, and admits exactly what the policies allow", { timeout: 120_000 }, async () => {
    let out = "";
    // A machine too busy for an overload proves nothing, so the demo has three tries. A violation has none.
    for (let i = 0; i < 3 && !(/^VERDICT: EXACT$/m.test(out) && classRow(out, "reports").refused > 0); i++) {
      const { code, err, ...run } = await startGateway("--seconds", "3").end();
      out = run.out;
      expect(err).toBe("");
      expect(code, out).toBe(0);
    }
    expect(out).toMatch(/^VERDICT: EXACT$/m);
    for (const name of ["no limits", "admitted", "refused"]) {
      expect(out).toMatch(
        new RegExp(`^${name} +\\d+ \\(\\d+ to \\d+\\) +\\d\\.\\d\\d \\(.*\\) +\\d+ \\(\\d+ to \\d+\\)$`, "m"),
      );
    }
    expect(out).toMatch(/^no wrong +ok: 0 requests below their rate were refused$/m);
    expect(out).toMatch(/^answers +ok: 0 not as expected, 0 lost$/m);
    expect(classRow(out, "trial")).toEqual({
      buckets: 3,
      requested: 180,
      refused: 90,
      admitted: 90,
      least: 90,
      most: 90,
    });
    expect(classRow(out, "reports")).toMatchObject({ buckets: 1, requested: 300 });
    for (const name of ["bursty", "reports"]) expect(classRow(out, name).refused, name).toBeGreaterThan(0);
    expect(Math.max(...out.split("\n").map((line) => line.length))).toBeLessThanOrEqual(90);
  });

  it("reports what was done so far on Ctrl-C, even if the signal comes twice", { timeout: 60_000 }, async () => {
    const { child, printed, end } = startGateway("--seconds", "60", "--workers", "2");
    await printed(/^ +1 s/m);
    child.kill("SIGINT");
    child.kill("SIGINT");

    const { code, signal, out, err } = await end();
    expect(err).toBe("");
    expect({ code, signal }, out).toEqual({ code: 0, signal: null });
    expect(out).toMatch(/^Interrupted after \d+\.\d s/m);
    expect(out).toMatch(/^VERDICT: nothing violated, but not everything could be judged$/m);
    expect(classRow(out, "steady").admitted).toBeGreaterThan(0);
  });

  it("ends on Ctrl-C during the measurement", { timeout: 60_000 }, async () => {
    const { child, printed, end } = startGateway("--workers", "2");
    await printed(/what do limits cost/);
    child.kill("SIGINT");
    const { code, out, err } = await end();
    expect({ code, err }, out).toEqual({ code: 0, err: "" });
    expect(out).toMatch(/Interrupted before it was measured\.\n$/);
  });

  it("prints its options with --help", async () => {
    const { code, out } = await startGateway("--help").end();
    expect(code).toBe(0);
    for (const option of ["--serve <file>", "--seconds <n>", "--workers <n>"]) expect(out).toContain(option);
  });

  it.each([
    ["--workers", "0", "\"workers\" expected an integer from 1 to 64, got 0"],
    ["--seconds", "0", "\"seconds\" expected a number above 0, up to 3600, got 0"],
    ["--worker", "2", "Unknown option '--worker'"],
  ])("rejects %s %s with a message, and exits with 2", async (name, value, message) => {
    const { code, err } = await startGateway(name, value).end();
    expect(code).toBe(2);
    expect(err).toContain(message);
  });
});

describe("the verdict", () => {
  const policy = "tier greedy";
  /** What clients saw of a bucket in 10 s: full at first, refused at last. Burst 80 + 30/s x 10 s = 380. */
  const seen = (admitted: number, changes: Partial<Tally> = {}): Tally => ({
    requested: 2000,
    admitted,
    firstAdmittedMs: 1000,
    lastAdmittedMs: 11_000,
    lastFullMs: 1000,
    lastRefusedMs: 11_000,
    ...changes,
  });

  /** The findings that do not hold. The table counted `off` more than the clients saw. */
  function findings(
    tallies: Tally[],
    { off = 0, evicted = 0, clean = true, isModest = false, wrong = 0, errors = 0, isWhole = true } = {},
  ): string[] {
    const steady = seen(1, { requested: 1, lastAdmittedMs: 1001, lastRefusedMs: -Infinity });
    const rows = [
      rowOf({ name: "greedy", policy, isModest, buckets: tallies.map((tally) => ({ rate: 30, burst: 80, tally })) }),
      rowOf({
        name: "steady",
        policy: "tier steady",
        isModest: true,
        buckets: [{ rate: 5, burst: 10, tally: steady }],
      }),
    ];
    const sum = (of: "requested" | "admitted") => tallies.reduce((total, tally) => total + tally[of], 0);
    const limiters = {
      [policy]: { allowed: sum("admitted") + off, denied: sum("requested") - sum("admitted") },
      "tier steady": { allowed: 1, denied: 0 },
    };
    return judge(rows, { wrong, errors, isWhole }, { evicted, limiters }, { clean })
      .filter(({ holds }) => holds !== true)
      .map(({ name, holds }) => `${name}: ${holds}`);
  }

  const cases: [string, Tally[], Parameters<typeof findings>[1], string[]][] = [
    ["holds for the exact allowance", [seen(380)], {}, []],
    ["holds when part of a token is still to come", [seen(379, { lastRefusedMs: 10_999 })], {}, []],
    ["fires for one token too many", [seen(381)], {}, ["no more: false"]],
    ["fires for one token too few", [seen(379)], {}, ["no less: false"]],
    ["fires for one bucket among others", [seen(380), seen(381), seen(380)], {}, ["no more: false"]],
    ["judges too much by the time of the admitted requests alone", [seen(380, { lastAdmittedMs: 10_999 })], {}, [
      "no more: false",
    ]],
    ["owes nothing for the time in which a full bucket was unused", [seen(365, { lastFullMs: 1500 })], {}, []],
    ["owes nothing for the time after the last refusal", [seen(320, { lastRefusedMs: 9000 })], {}, []],
    ["fires for a refusal below the rate", [seen(380)], { isModest: true }, ["no wrong: false"]],
    ["fires for an unexpected answer", [seen(380)], { wrong: 1 }, ["answers: false"]],
    ["fires for a lost answer", [seen(380)], { errors: 1 }, ["answers: false"]],
    ["fires for a table whose counts differ", [seen(380)], { off: 1 }, ["table: false"]],
    ["fires for an eviction", [seen(380)], { evicted: 1 }, ["table: false"]],
    ["fires for an audit that is not clean", [seen(380)], { clean: false }, ["table: false"]],
    ["does not judge what was under way when it was interrupted", [seen(370)], { isWhole: false, off: 10 }, [
      "no less: undefined",
      "answers: undefined",
    ]],
    ["fires for too much even when it was interrupted", [seen(381)], { isWhole: false }, [
      "no more: false",
      "no less: undefined",
      "answers: undefined",
    ]],
    ["does not judge refusals when nothing was refused", [seen(380, { lastRefusedMs: -Infinity })], {}, [
      "no less: undefined",
    ]],
  ];
  it.each(cases)("%s", (_, tallies, run, expected) => {
    expect(findings(tallies, run)).toEqual(expected);
  });
});
