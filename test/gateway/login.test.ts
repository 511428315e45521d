/**
 * Login protection as docs/login.md describes it: its bound under a thousand logins at once, and the
 * example as a program.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { every, type Limiter, ManualClock, Sluice } from "sluice";
import { describe, expect, it, onTestFinished } from "vitest";
import { Crew } from "../threads/crew.js";
import { programOf } from "./gateway.js";
import type { LoginJobs } from "./login.worker.js";

const THREADS = 4;
const hire = Crew.of<LoginJobs>(new URL("./login.worker.ts", import.meta.url));

describe("1,000 logins at once in 4 threads", { timeout: 60_000 }, () => {
  it("check no more wrong passwords than the limits allow, and right ones do not count", async () => {
    const sluice = Sluice.create({ capacity: 1000 });
    onTestFinished(() => sluice.close());
    const limit = 5;
    const accounts = 10;
    const perAccount = sluice.tokenBucket("account", { rate: 0, burst: limit });
    const perAddress = sluice.tokenBucket("address", { rate: 0, burst: 20 });
    const tries = 40;
    const crew = await hire(THREADS, "logins", sluice.handle, { clients: 250, tries, accounts });
    crew.begin();
    await expect.poll(() => sluice.stats().contended, { timeout: 50_000 }).toBeGreaterThan(0);
    crew.stop();
    const reports = await crew.reports();

    for (let i = 0; i < accounts; i++) {
      const name = `account ${i}`;
      const of = (count: "right" | "wrong"): number[] => reports.map((through) => through[name]?.[count] ?? 0);
      const wrong = of("wrong").reduce((a, b) => a + b);
      expect(wrong).toBeLessThanOrEqual(limit);
      // No failure stays reserved and none was refunded twice: what is left is what did not fail.
      expect(perAccount.peek(name).remaining).toBe(limit - wrong);
      expect(of("right").reduce((a, b) => a + b)).toBeGreaterThan(0);
    }
    // The clients went on until no account had a guess left.
    expect(Array.from({ length: accounts }, (_, i) => perAccount.peek(`account ${i}`).remaining)).toEqual(
      Array(accounts).fill(0),
    );
    for (let thread = 0; thread < THREADS; thread++) {
      const { right, wrong } = reports[thread][`owner ${thread}`];
      expect(right).toBeGreaterThanOrEqual(tries);
      expect(wrong).toBe(0);
      expect(perAccount.peek(`owner ${thread}`).remaining).toBe(limit);
    }
    expect([perAccount.peek("shared").remaining, perAddress.peek("office").remaining]).toEqual([limit, 20]);
    for (let i = 0; i < 20; i++) expect(perAddress.peek(`address ${i}`).remaining).toBeGreaterThanOrEqual(0);
  });
});

describe("one login", () => {
  function create(): { sluice: Sluice; clock: ManualClock; perAccount: Limiter; perAddress: Limiter } {
    const clock = new ManualClock();
    const sluice = Sluice.create({ capacity: 1000, clock });
    onTestFinished(() => sluice.close());
    return {
      sluice,
      clock,
      perAccount: sluice.tokenBucket("account", { rate: every(180_000), burst: 5 }),
      perAddress: sluice.tokenBucket("address", { rate: every(60_000), burst: 20 }),
    };
  }

  it("takes nothing from one limit if the other refuses", () => {
    const { sluice, perAccount, perAddress } = create();
    for (let i = 0; i < 5; i++) expect(sluice.all([[perAccount, "alice"], [perAddress, "home"]]).allowed).toBe(true);
    expect(sluice.all([[perAccount, "alice"], [perAddress, "home"]])).toMatchObject({
      allowed: false,
      refusedBy: "account",
      retryAfterMs: 180_000,
    });
    expect(perAddress.peek("home").remaining).toBe(15);
  });

  it("leaves no trace if it was right, which a cancelled reservation cannot do after its time", () => {
    const { sluice, clock, perAccount, perAddress } = create();
    sluice.all([[perAccount, "alice"], [perAddress, "home"]]);
    clock.advance(250);
    perAccount.refund("alice");
    perAddress.refund("home");
    expect([perAccount.peek("alice").remaining, perAddress.peek("home").remaining]).toEqual([5, 20]);
    // It was due when it was made.
    const reservation = sluice.reserveAll([[perAccount, "alice"], [perAddress, "home"]], { maxWaitMs: 0 });
    clock.advance(250);
    expect([reservation.granted, reservation.cancel(), perAccount.peek("alice").remaining]).toEqual([true, false, 4]);
  });

  it("refunds no more than the bucket has room for", () => {
    const { clock, perAccount } = create();
    perAccount.allow("alice");
    clock.advance(200_000);
    perAccount.refund("alice");
    expect(perAccount.peek("alice").remaining).toBe(5);
  });
});

describe("the login example", () => {
  it(
    "checks 5 of 100 wrong passwords at once, and any number of right ones",
    { timeout: 60_000 },
    async () => {
      const child = spawn(process.execPath, [programOf("login.js"), "--port", "0"], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      onTestFinished(() => void child.kill());
      const [line] = (await once(child.stdout.setEncoding("utf8"), "data")) as [string];
      const url = line.trim();
      const login = async (account: unknown, password: unknown): Promise<number> => {
        const response = await fetch(url, { method: "POST", body: JSON.stringify({ account, password }) });
        if (response.status === 429) expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
        await response.text();
        return response.status;
      };
      for (let i = 0; i < 10; i++) expect(await login("alice", "correct horse")).toBe(200);
      const statuses = await Promise.all(Array.from({ length: 100 }, (_, i) => login("bob", `guess ${i}`)));
      expect(statuses.filter((status) => status === 401)).toHaveLength(5);
      expect(statuses.filter((status) => status === 429)).toHaveLength(95);
      expect(await login("alice", "correct horse")).toBe(200);
      expect([await login("alice", 5), await login(undefined, "a"), (await fetch(url)).status]).toEqual([
        400,
        400,
        404,
      ]);
    },
  );
});
