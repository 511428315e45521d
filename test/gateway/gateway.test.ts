/**
 * The gateway example as a user starts it: a whole run, one that is interrupted,
 * and every check of its verdict made to fire.
 */
import { describe, expect, it } from "vitest";
import { moduleOf, startGateway } from "./gateway.js";

/** What is printed of a class. */
function classRow(out: string, name: string) {
  const [buckets, requested, refused, admitted, least, most] = new RegExp(`^${name} .*$`, "m").exec(out)![0].match(
    /\d+/g,
  )!.map(Number);
  return { buckets, requested, refused, admitted, least, most };
}

describe("the gateway example", () => {
  it("says what limits cost, and admits exactly what the policies allow", { timeout: 120_000 }, async () => {
    let out = "";
    // A machine too busy for an overload proves nothing, so it has three tries; a violation has none.
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
    expect(out).toMatch(/^no wrong +ok: 0 requests of those below their rate were refused$/m);
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

  it("ends on Ctrl-C with what was done so far, even if the signal comes twice", { timeout: 60_000 }, async () => {
    const gateway = startGateway("--seconds", "60", "--workers", "2");
    await gateway.until(/^ +1 s/m);
    gateway.child.kill("SIGINT");
    gateway.child.kill("SIGINT");

    const { code, signal, out, err } = await gateway.end();
    expect(err).toBe("");
    expect({ code, signal }, out).toEqual({ code: 0, signal: null });
    expect(out).toMatch(/^Interrupted after \d+\.\d s/m);
    expect(out).toMatch(/^VERDICT: nothing violated, but not all could be judged$/m);
    expect(classRow(out, "steady").admitted).toBeGreaterThan(0);
  });

  it("ends on Ctrl-C while it still measures, too", { timeout: 60_000 }, async () => {
    const gateway = startGateway("--workers", "2");
    await gateway.until(/what do limits cost/);
    gateway.child.kill("SIGINT");
    const { code, out, err } = await gateway.end();
    expect({ code, err }, out).toEqual({ code: 0, err: "" });
    expect(out).toMatch(/Interrupted before it was measured\.\n$/);
  });

  it("says what it does not understand, and exits with 2", async () => {
    const { code, err } = await startGateway("--workers", "0").end();
    expect(code).toBe(2);
    expect(err).toContain("\"workers\" expected an integer from 1 to 64, got 0");
  });
});

describe("the verdict of the gateway example", () => {
  const policy = "tier greedy";
  /** What clients saw of a bucket in 10 s: full at first, refused at last. Burst 80 + 30/s x 10 s = 380. */
  const seen = (admitted: number, changes = {}) => ({
    requested: 2000,
    admitted,
    firstAdmittedMs: 1000,
    lastAdmittedMs: 11_000,
    lastFullMs: 1000,
    lastRefusedMs: 11_000,
    ...changes,
  });
  type Seen = ReturnType<typeof seen>;

  /** What does not hold; the table counted `off` more than the clients saw. */
  async function findings(
    tallies: Seen[],
    { off = 0, evicted = 0, clean = true, isModest = false, wrong = 0, errors = 0, isWhole = true } = {},
  ): Promise<string[]> {
    const { judge, rowOf } = await moduleOf("verdict.js");
    const rows = [
      rowOf({ name: "greedy", policy, isModest, buckets: tallies.map((tally) => ({ rate: 30, burst: 80, tally })) }),
      rowOf({
        name: "steady",
        policy: "tier steady",
        isModest: true,
        buckets: [{
          rate: 5,
          burst: 10,
          tally: seen(1, { requested: 1, lastAdmittedMs: 1001, lastRefusedMs: -Infinity }),
        }],
      }),
    ];
    const sum = (of: "requested" | "admitted") => tallies.reduce((total, tally) => total + tally[of], 0);
    const limiters = {
      [policy]: { allowed: sum("admitted") + off, denied: sum("requested") - sum("admitted") },
      "tier steady": { allowed: 1, denied: 0 },
    };
    return judge(rows, { wrong, errors, isWhole }, { evicted, limiters }, { clean })
      .filter(({ holds }: { holds?: boolean }) => holds !== true)
      .map(({ name, holds }: { name: string; holds?: boolean }) => `${name}: ${holds}`);
  }

  const cases: [string, Seen[], Parameters<typeof findings>[1], string[]][] = [
    ["holds for the exact allowance", [seen(380)], {}, []],
    ["holds for the part of a token that is still to come", [seen(379, { lastRefusedMs: 10_999 })], {}, []],
    ["fires for one token too many", [seen(381)], {}, ["no more: false"]],
    ["fires for one token too few", [seen(379)], {}, ["no less: false"]],
    ["fires for one bucket among others", [seen(380), seen(381), seen(380)], {}, ["no more: false"]],
    ["judges too much by the time of the admitted requests alone", [seen(380, { lastAdmittedMs: 10_999 })], {}, [
      "no more: false",
    ]],
    ["owes nothing for the time a full bucket was left alone", [seen(365, { lastFullMs: 1500 })], {}, []],
    ["owes nothing for the time after the last refusal", [seen(320, { lastRefusedMs: 9000 })], {}, []],
    ["fires for a refusal below the rate", [seen(380)], { isModest: true }, ["no wrong: false"]],
    ["fires for an answer that was not expected", [seen(380)], { wrong: 1 }, ["answers: false"]],
    ["fires for an answer that was lost", [seen(380)], { errors: 1 }, ["answers: false"]],
    ["fires for a table that counted something else", [seen(380)], { off: 1 }, ["table: false"]],
    ["fires for an eviction", [seen(380)], { evicted: 1 }, ["table: false"]],
    ["fires for an audit that is not clean", [seen(380)], { clean: false }, ["table: false"]],
    ["does not call less, or lost, what was under way when it was interrupted", [seen(370)], {
      isWhole: false,
      off: 10,
    }, ["no less: undefined", "answers: undefined"]],
    ["fires for too much even then", [seen(381)], { isWhole: false }, [
      "no more: false",
      "no less: undefined",
      "answers: undefined",
    ]],
    ["does not judge refusals when nothing was refused", [seen(380, { lastRefusedMs: -Infinity })], {}, [
      "no less: undefined",
    ]],
  ];
  it.each(cases)("%s", async (_, tallies, run, expected) => {
    expect(await findings(tallies, run)).toEqual(expected);
  });
});
