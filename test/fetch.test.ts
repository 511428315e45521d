/** The limited fetch, with real servers on the loopback and a manual clock. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type Limiter, ManualClock, Sluice } from "sluice";
import { limitedFetch, type LimitedFetchOptions } from "sluice/fetch";
import {
  fetch as undiciFetch,
  FormData as UndiciFormData,
  Request as UndiciRequest,
  Response as UndiciResponse,
} from "undici";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import type { FetchJobs } from "./fetch.worker.js";
import { create, openTable } from "./tables.js";
import { Crew, sum, until } from "./threads/crew.js";

afterEach(() => {
  vi.restoreAllMocks();
});

function createApi(options = { rate: 10, burst: 1000 }): { sluice: Sluice; clock: ManualClock; limiter: Limiter } {
  const { sluice, clock } = create();
  return { sluice, clock, limiter: sluice.tokenBucket("api", options) };
}

interface Seen {
  at: number;
  method: string;
  path: string;
  body: string;
}

/** A server that gives `answers` in turn, and then the last one for ever; `seen` is what it saw and when. */
async function serve(
  clock: ManualClock,
  ...answers: [status: number, headers?: Record<string, string>][]
): Promise<{ url: string; seen: Seen[] }> {
  const seen: Seen[] = [];
  const server = createServer(async (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    seen.push({ at: clock.nowMs, method: request.method!, path: request.url!, body: Buffer.concat(chunks).toString() });
    const [status, headers = {}] = answers[Math.min(seen.length, answers.length) - 1];
    response.sendDate = false;
    response.writeHead(status, headers).end(`answer ${seen.length}`);
  });
  server.listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, seen };
}

/** Moves the clock on in steps of `ms`, with real time between, until the promise is done. */
async function whileMoving<T>(clock: ManualClock, ms: number, promise: Promise<T>): Promise<T> {
  let isDone = false;
  const done = promise.finally(() => (isDone = true));
  done.catch(() => {});
  while (!isDone) {
    await new Promise((resolve) => setTimeout(resolve, 3));
    if (!isDone) clock.advance(ms);
  }
  return done;
}

/** Lets what is under way come to rest: requests arrive, answers come back. */
const rest = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 100));

describe("a limited fetch", () => {
  it("starts calls as the limiter admits them", async () => {
    const { clock, limiter } = createApi({ rate: 10, burst: 2 });
    const { url, seen } = await serve(clock, [200]);
    const limited = limitedFetch(limiter);
    const calls = Promise.all(Array.from({ length: 5 }, async () => (await limited(url)).text()));
    for (let ready = 2; ready <= 5; ready++) {
      await until(() => seen.length === ready);
      await rest();
      expect(seen.length).toBe(ready);
      clock.advance(100);
    }
    await calls;
    expect(seen.map(({ at }) => at)).toEqual([1000, 1000, 1100, 1200, 1300]);
  });

  it("takes its cost from the bucket of its key: one key, one a host, or the global one", async () => {
    const { clock, limiter } = createApi();
    const { url } = await serve(clock, [200]);
    await limitedFetch(limiter, { key: "one", cost: 3 })(url);
    await limitedFetch(limiter, { key: ({ host }) => host })(new URL(url));
    await limitedFetch(limiter, { key: ({ pathname }) => pathname })(new Request(`${url}path`));
    await limitedFetch(limiter, { cost: 7 })(url);
    const left = (key?: string): number => (key === undefined ? limiter.global : limiter.key(key)).peek().remaining;
    expect([left("one"), left(new URL(url).host), left("/path"), left()]).toEqual([997, 999, 999, 993]);
  });

  it("passes on the address, the options and the answer", async () => {
    const { clock, limiter } = createApi();
    const { url, seen } = await serve(clock, [201, { "x-own": "yes" }]);
    const response = await limitedFetch(limiter)(`${url}a?b`, { method: "POST", body: "hello" });
    expect([response.status, response.headers.get("x-own"), await response.text()]).toEqual([201, "yes", "answer 1"]);
    expect(seen).toEqual([{ at: 1000, method: "POST", path: "/a?b", body: "hello" }]);
  });

  it("treats null as no options, as fetch does", async () => {
    const { clock, limiter } = createApi();
    const { url } = await serve(clock, [200]);
    expect((await limitedFetch(limiter)(url, null as never)).status).toBe(200);
  });

  it("calls undici's fetch, with undici's types, if that is the option", async () => {
    const { clock, limiter } = createApi();
    const { url, seen } = await serve(clock, [429, { "retry-after": "0" }], [200]);
    const limited: typeof undiciFetch = limitedFetch(limiter, { fetch: undiciFetch });
    expect(await limited(new UndiciRequest(url, { method: "PUT", body: "hello" }))).toBeInstanceOf(UndiciResponse);
    expect(seen.map(({ body }) => body)).toEqual(["hello", "hello"]);
  });

  it("rejects as fetch does for a wrong address, or without a server", async () => {
    const { limiter } = createApi();
    await expect(limitedFetch(limiter)("nonsense")).rejects.toThrow(TypeError);
    await expect(limitedFetch(limiter, { key: ({ host }) => host })("nonsense")).rejects.toThrow(TypeError);
    await expect(limitedFetch(limiter)("http://127.0.0.1:1/")).rejects.toThrow(TypeError);
  });

  it.each<[string, (url: string, signal: AbortSignal) => [string | Request, RequestInit?]]>([
    ["its options", (url, signal) => [url, { signal }]],
    ["a Request", (url, signal) => [new Request(url, { signal })]],
  ])("follows the signal of %s, before the call and while it waits", async (_, call) => {
    const { clock, limiter } = createApi({ rate: 1, burst: 1 });
    const { url, seen } = await serve(clock, [200]);
    const limited = limitedFetch(limiter);
    await expect(limited(...call(url, AbortSignal.abort(new Error("before"))))).rejects.toThrow("before");
    expect(limiter.global.peek().remaining).toBe(1);

    await limited(url);
    const stop = new AbortController();
    const waiting = limited(...call(url, stop.signal));
    waiting.catch(() => {});
    await rest();
    stop.abort(new Error("meanwhile"));
    await expect(waiting).rejects.toThrow("meanwhile");
    expect(seen.length).toBe(1);
    // The turn went back.
    clock.advance(1000);
    expect(limiter.global.peek().remaining).toBe(1);
  });

  it("is not aborted by a Request's signal if the signal of the options is null", async () => {
    const { clock, limiter } = createApi();
    const { url } = await serve(clock, [200]);
    expect((await limitedFetch(limiter)(new Request(url, { signal: AbortSignal.abort() }), { signal: null })).status)
      .toBe(200);
  });

  it("rejects at once, and takes nothing, if its turn is not within timeoutMs", async () => {
    const { clock, limiter } = createApi({ rate: 1, burst: 1 });
    const { url, seen } = await serve(clock, [200]);
    const limited = limitedFetch(limiter, { timeoutMs: 999 });
    await limited(url);
    await expect(limited(url)).rejects.toMatchObject({ code: "ERR_SLUICE_TIMEOUT" });
    clock.advance(1);
    expect((await whileMoving(clock, 100, limited(url))).status).toBe(200);
    expect(seen.length).toBe(2);
  });
});

describe("Retry-After", () => {
  const wallMs = Date.UTC(2030, 0, 1);
  const dated = (ms: number): string => new Date(wallMs + ms).toUTCString();

  it.each<[string, Record<string, string>, number]>([
    ["seconds", { "retry-after": "7" }, 7000],
    ["no time at all", { "retry-after": "0" }, 0],
    ["a date", { "retry-after": dated(5000) }, 5000],
    [
      "a date on a server whose clock is an hour behind",
      { "retry-after": dated(-3_595_000), date: dated(-3_600_000) },
      5000,
    ],
    ["a date, from a server without a readable Date", { "retry-after": dated(3000), date: "yesterday" }, 3000],
    ["a date in the past", { "retry-after": dated(-60_000) }, 0],
    ["a date in the oldest format", { "retry-after": "Tue Jan  1 00:00:09 2030" }, 9000],
    ["a date in the older format", { "retry-after": "Tuesday, 01-Jan-30 00:00:04 GMT" }, 4000],
  ])("of %s pauses the key for that time, and then the call is repeated", async (_, headers, waitMs) => {
    vi.spyOn(Date, "now").mockReturnValue(wallMs);
    const { clock, limiter } = createApi();
    const { url, seen } = await serve(clock, [429, headers], [200]);
    const call = limitedFetch(limiter, { key: "host" })(url);
    if (waitMs > 0) {
      await until(() => seen.length === 1 && !limiter.peek("host").allowed);
      await rest();
      clock.advance(waitMs - 0.001);
      await rest();
      expect(seen.length).toBe(1);
      // Nor does another thread get a turn.
      expect(limiter.peek("host").allowed).toBe(false);
      expect(limiter.peek("other").allowed).toBe(true);
      // The charge is in whole tokens, of which one takes 100 ms.
      clock.advance(0.001);
      await rest();
      if (seen.length === 1) clock.advance(100);
    }
    expect((await call).status).toBe(200);
    expect(seen.length).toBe(2);
  });

  it.each([
    "",
    "soon",
    "-5",
    "1.5",
    "1e3",
    "0x10",
    "5 s",
    "NaN",
    "2030-01-01T00:00:05Z",
    "Tue, 99 Jan 2030 00:00:05 GMT",
    "5, 7",
  ])("of %j is not one: the caller gets the answer", async (value) => {
    const { clock, limiter } = createApi();
    const { url, seen } = await serve(clock, [429, { "retry-after": value }]);
    expect((await limitedFetch(limiter)(url)).status).toBe(429);
    expect([seen.length, limiter.global.peek().remaining]).toEqual([1, 999]);
  });

  it.each([200, 301, 404, 500])("with status %i is ignored", async (status) => {
    const { clock, limiter } = createApi();
    const { url, seen } = await serve(clock, [status, { "retry-after": "5" }]);
    expect((await limitedFetch(limiter)(url)).status).toBe(status);
    expect([seen.length, limiter.global.peek().remaining]).toEqual([1, 999]);
  });

  it.each(["61", "9".repeat(400), dated(86_400_000)])(
    "of %s is longer than maxRetryAfterMs: the caller gets the answer, and the pause lasts maxRetryAfterMs",
    async (value) => {
      vi.spyOn(Date, "now").mockReturnValue(wallMs);
      const { clock, limiter } = createApi();
      const { url, seen } = await serve(clock, [429, { "retry-after": value }], [200]);
      const limited = limitedFetch(limiter, { maxRetryAfterMs: 60_000 });
      expect((await limited(url)).status).toBe(429);
      expect(limiter.global.peek().retryAfterMs).toBeGreaterThanOrEqual(60_000);
      expect(limiter.global.peek().retryAfterMs).toBeLessThan(60_100);
      const next = limited(url);
      await rest();
      expect(seen.length).toBe(1);
      clock.advance(60_100);
      expect((await next).status).toBe(200);
    },
  );

  it("pauses all callers of the key, also those whose turn has come, and charges the key once", async () => {
    const { clock, limiter } = createApi({ rate: 1000, burst: 1000 });
    const { url, seen } = await serve(clock, [429, { "retry-after": "10" }], [429, { "retry-after": "10" }], [429, {
      "retry-after": "10",
    }], [200]);
    const limited = limitedFetch(limiter, { key: ({ host }) => host });
    const first = Promise.all([limited(url), limited(url), limited(url)]);
    await until(() => seen.length === 3);
    await rest();
    const others = Promise.all(Array.from({ length: 20 }, () => limited(url)));
    // Three such answers make one pause.
    expect(limiter.peek(new URL(url).host).retryAfterMs).toBeLessThan(10_030);
    clock.advance(9_999);
    await rest();
    expect(seen.length).toBe(3);
    expect((await whileMoving(clock, 10, Promise.all([first, others]))).flat().map(({ status }) => status)).toEqual(
      Array(23).fill(200),
    );
    expect(Math.min(...seen.slice(3).map(({ at }) => at))).toBeGreaterThanOrEqual(11_000);
  });

  it("pauses a call that waits for its turn when the answer comes", async () => {
    const { clock, limiter } = createApi({ rate: 1, burst: 1 });
    const { url, seen } = await serve(clock, [429, { "retry-after": "5" }], [200]);
    const limited = limitedFetch(limiter, { maxRetries: 0 });
    const calls = [limited(url), limited(url)];
    expect((await calls[0]).status).toBe(429);
    clock.advance(1000);
    await rest();
    expect(seen.length).toBe(1);
    clock.advance(4000);
    expect((await calls[1]).status).toBe(200);
    expect(seen.map(({ at }) => at)).toEqual([1000, 6000]);
  });

  it.each<[string, (sluice: Sluice) => Limiter]>([
    ["a token bucket", (sluice) => sluice.tokenBucket("l", { rate: 10, burst: 1 })],
    ["a leaky queue, which has no room for the pause", (sluice) => sluice.leakyBucket("l", { rate: 10, queue: 20 })],
    [
      "several limits",
      (sluice) => sluice.tokenBucket("l", { limits: [{ rate: 10, burst: 1 }, { rate: 20, burst: 5 }] }),
    ],
  ])("ends in a sequence of calls, at the rate of %s", async (_, make) => {
    const { sluice, clock } = createApi();
    const { url, seen } = await serve(clock, [429, { "retry-after": "20" }], [200]);
    const limited = limitedFetch(make(sluice), { maxRetries: 0 });
    await limited(url);
    const calls = Promise.all(Array.from({ length: 10 }, () => limited(url)));
    expect((await whileMoving(clock, 50, calls)).map(({ status }) => status)).toEqual(Array(10).fill(200));
    const times = seen.slice(1).map(({ at }) => at);
    expect(times[0]).toBeGreaterThanOrEqual(21_000);
    expect(times.at(-1)! - times[0]).toBeGreaterThanOrEqual(800);
  });

  it("gives the caller the answer if the limiter has no turn for another attempt", async () => {
    const { sluice, clock } = createApi();
    const { url, seen } = await serve(clock, [429, { "retry-after": "0" }], [200]);
    const response = await limitedFetch(sluice.tokenBucket("once", { rate: 0, burst: 1 }))(url);
    expect([response.status, await response.text(), seen.length]).toEqual([429, "answer 1", 1]);
  });

  it("is not followed after maxRetries, nor after an abort", async () => {
    const { clock, limiter } = createApi();
    const { url, seen } = await serve(clock, [429, { "retry-after": "1" }]);
    expect((await whileMoving(clock, 100, limitedFetch(limiter, { maxRetries: 3 })(url))).status).toBe(429);
    expect(seen.length).toBe(4);
    const stop = new AbortController();
    const call = limitedFetch(limiter, { key: "other" })(url, { signal: stop.signal });
    call.catch(() => {});
    await until(() => seen.length === 5);
    await rest();
    stop.abort(new Error("enough"));
    await expect(call).rejects.toThrow("enough");
  });

  it("that is longer than the rest of timeoutMs gives the caller the whole answer", async () => {
    const { clock, limiter } = createApi();
    const { url, seen } = await serve(clock, [429, { "retry-after": "10" }]);
    const limited = limitedFetch(limiter, { timeoutMs: 9_999 });
    const response = await limited(url);
    expect([response.status, await response.text(), seen.length]).toEqual([429, "answer 1", 1]);
    await expect(limited(url)).rejects.toMatchObject({
      code: "ERR_SLUICE_TIMEOUT",
      message: "timed out: the server asked for a pause of 10000 ms more, timeoutMs is 9999",
      limiter: "api",
      cost: 1,
      retryAfterMs: 10_000,
    });
  });

  it("pauses a key of bytes, in whatever array they are, and no other key", async () => {
    const { sluice, clock } = createApi();
    const limiter = sluice.tokenBucket("all", { rate: Infinity, burst: 10 });
    const { url } = await serve(clock, [429, { "retry-after": "5" }], [200]);
    const options = { maxRetries: 0, timeoutMs: 100 };
    const limited = limitedFetch(limiter, {
      ...options,
      key: ({ pathname }) => (pathname === "/text" ? "\x01" : Uint8Array.of(pathname === "/" ? 1 : 2)),
    });
    expect((await limited(url)).status).toBe(429);
    await expect(limited(url)).rejects.toMatchObject({ code: "ERR_SLUICE_TIMEOUT" });
    for (const path of ["text", "other"]) expect((await limited(url + path)).status).toBe(200);
  });

  it("does not charge a limiter whose rate is 0 or Infinity", async () => {
    const { sluice, clock } = createApi();
    const { url, seen } = await serve(clock, [429, { "retry-after": "5" }], [200]);
    for (const [name, rate] of [["none", 0], ["all", Infinity]] as const) {
      const limiter = sluice.tokenBucket(name, { rate, burst: 10 });
      seen.length = 0;
      const call = limitedFetch(limiter)(url);
      await until(() => seen.length === 1);
      await rest();
      expect(limiter.global.peek().allowed).toBe(true);
      clock.advance(5000);
      expect((await call).status).toBe(200);
    }
  });
});

describe("a call that can be repeated", () => {
  const form = (made: FormData | UndiciFormData): typeof made => (made.append("a", "b"), made);
  const bytes = new TextEncoder().encode("hello");
  it.each<[string, string, unknown]>([
    ["a string", "hello", "hello"],
    ["bytes", "hello", bytes],
    ["an ArrayBuffer", "hello", bytes.buffer],
    ["a Blob", "hello", new Blob(["hello"])],
    ["parameters", "a=b", new URLSearchParams({ a: "b" })],
  ])("has a body that can be sent again: %s", async (_, text, body) => {
    const { clock, limiter } = createApi();
    for (const [fetch, make] of [[globalThis.fetch, Request], [undiciFetch, UndiciRequest]] as const) {
      const { url, seen } = await serve(clock, [429, { "retry-after": "0" }], [200]);
      const limited = limitedFetch(limiter, { fetch: fetch as typeof globalThis.fetch });
      expect((await limited(url, { method: "POST", body: body as RequestInit["body"] })).status).toBe(200);
      expect(seen.map((each) => each.body)).toEqual([text, text]);

      const second = await serve(clock, [429, { "retry-after": "0" }], [200]);
      expect((await limited(new make(second.url, { method: "POST", body: body as never }) as Request)).status).toBe(
        200,
      );
      expect(second.seen.map((each) => each.body)).toEqual([text, text]);
    }
  });

  it("has a form, of the global kind or undici's", async () => {
    const { clock, limiter } = createApi();
    for (
      const [fetch, body] of [[globalThis.fetch, form(new FormData())], [
        undiciFetch,
        form(new UndiciFormData()),
      ]] as const
    ) {
      const { url, seen } = await serve(clock, [429, { "retry-after": "0" }], [200]);
      expect(
        (await limitedFetch(limiter, { fetch: fetch as typeof globalThis.fetch })(url, {
          method: "POST",
          body: body as FormData,
        })).status,
      ).toBe(200);
      for (const each of seen) expect(each.body).toMatch(/name="a"\r\n\r\nb/);
    }
  });

  it.each<[string, () => unknown]>([
    ["a stream", () => new Blob(["hello"]).stream()],
    ["a generator", async function*() {
      yield bytes;
    }],
  ])("does not have %s as its body: it is sent once, and the key pauses", async (_, body) => {
    const { clock, limiter } = createApi();
    const { url, seen } = await serve(clock, [429, { "retry-after": "5" }], [200]);
    const response = await limitedFetch(limiter)(
      url,
      { method: "POST", body: body() as RequestInit["body"], duplex: "half" } as RequestInit,
    );
    expect([response.status, seen.map((each) => each.body)]).toEqual([429, ["hello"]]);
    expect(limiter.global.peek().allowed).toBe(false);
  });

  it.each([
    ["GET", 503, true],
    ["HEAD", 503, true],
    ["PUT", 503, true],
    ["DELETE", 503, true],
    ["post", 503, false],
    ["PATCH", 503, false],
    ["post", 429, true],
    ["PATCH", 429, true],
  ])("%s on %i: %s", async (method, status, isRetried) => {
    const { clock, limiter } = createApi();
    const { url, seen } = await serve(clock, [status, { "retry-after": "0" }], [200]);
    expect((await limitedFetch(limiter)(url, { method })).status).toBe(isRetried ? 200 : status);
    expect(seen.length).toBe(isRetried ? 2 : 1);
  });

  it("has the body of its first answer cancelled", async () => {
    const { clock, limiter } = createApi();
    const { url } = await serve(clock, [429, { "retry-after": "0" }], [200]);
    const cancelled: (boolean | undefined)[] = [];
    const spying = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
      const response = await fetch(input, init);
      cancelled.push(false);
      const place = cancelled.length - 1;
      const { body } = response;
      if (body) {
        const cancel = body.cancel.bind(body);
        body.cancel = (reason) => {
          cancelled[place] = true;
          return cancel(reason);
        };
      }
      return response;
    };
    await limitedFetch(limiter, { fetch: spying as typeof fetch })(url);
    expect(cancelled).toEqual([true, false]);
  });
});

describe("other kinds of limiters", () => {
  it.each<[string, (sluice: Sluice) => Limiter]>([
    ["a leaky bucket", (sluice) => sluice.leakyBucket("l", { rate: 10, burst: 5 })],
    ["a leaky queue", (sluice) => sluice.leakyBucket("l", { rate: 10, queue: 1000 })],
    [
      "several limits",
      (sluice) => sluice.tokenBucket("l", { limits: [{ rate: 10, burst: 10 }, { rate: 1, burst: 100 }] }),
    ],
    ["a fixed window", (sluice) => sluice.fixedWindow("l", { limit: 10, windowMs: 1000 })],
    ["a sliding window", (sluice) => sluice.slidingWindow("l", { limit: 10, windowMs: 1000 })],
    ["a sliding window with slots", (sluice) => sluice.slidingWindow("l", { limit: 10, windowMs: 1000, slots: 10 })],
    ["a warm-up", (sluice) => sluice.warmUp("l", { rate: 10, warmupMs: 1000 })],
  ])("%s: the key pauses in this thread for the whole time", async (_, make) => {
    const { sluice, clock } = createApi();
    const limiter = make(sluice);
    const { url, seen } = await serve(clock, [429, { "retry-after": "20" }], [200]);
    const call = limitedFetch(limiter, { key: "host" })(url);
    await until(() => seen.length === 1);
    await rest();
    expect((await whileMoving(clock, 250, call)).status).toBe(200);
    expect(seen[1].at).toBeGreaterThanOrEqual(21_000);
    expect(seen[1].at).toBeLessThan(24_000);
  });
});

describe("4 threads", { timeout: 60_000 }, () => {
  const hire = Crew.of<FetchJobs>(new URL("./fetch.worker.ts", import.meta.url));

  it("share one limit, and one pause that a server asks one of them for", async () => {
    const sluice = openTable({ capacity: 1000 });
    const limiter = sluice.tokenBucket("api", { rate: 1e-9, burst: 100 });
    const clock = new ManualClock();
    const { url, seen } = await serve(clock, [200]);
    const crew = await hire(4, "calls", sluice.handle, {
      url,
      calls: 50,
    });
    const reports = await crew.work();
    expect(sum(reports.map(({ answered }) => answered))).toBe(100);
    expect(sum(reports.map(({ refused }) => refused))).toBe(100);
    expect(reports.filter(({ answered }) => answered > 0).length).toBeGreaterThan(1);
    expect(seen.length).toBe(100);
    expect(limiter.global.peek().allowed).toBe(false);

    const paused = sluice.tokenBucket("paused", { rate: 10, burst: 100 });
    const busy = await serve(clock, [429, { "retry-after": "3000" }]);
    const limited = limitedFetch(paused, { maxRetries: 0, maxRetryAfterMs: Infinity });
    await limited(busy.url);
    const others = await hire(4, "calls", sluice.handle, {
      url: busy.url,
      calls: 10,
      name: "paused",
    });
    expect(await others.work()).toEqual(Array(4).fill({ answered: 0, refused: 10 }));
    expect(busy.seen.length).toBe(1);
  });
});

describe("options", () => {
  it.each<[LimitedFetchOptions | unknown, string]>([
    [{ cost: -1 }, "\"cost\" expected an integer from 0 to 2147483647, got -1"],
    [{ timeoutMs: NaN }, "\"timeoutMs\" expected a number of milliseconds >= 0, or Infinity, got NaN"],
    [{ maxRetries: 1.5 }, "\"maxRetries\" expected an integer from 0 to 9007199254740991, got 1.5"],
    [{ maxRetryAfterMs: "5" }, "\"maxRetryAfterMs\" expected a number of milliseconds >= 0, or Infinity, got \"5\""],
    [{ fetch: 5 }, "\"fetch\" expected a function, got 5"],
    [null, "\"options\" expected an object, got null"],
    [{ maxRetrys: 5 }, "\"options\" has no option \"maxRetrys\"; did you mean \"maxRetries\"?"],
    [{ keyGenerator: 5 }, "\"options\" has no option \"keyGenerator\"; did you mean \"key\"?"],
  ])("%j are refused", (options, message) => {
    const { limiter } = createApi();
    expect(() => limitedFetch(limiter, options as LimitedFetchOptions)).toThrow(message);
  });

  it("refuse a wrong limiter, and a call rejects a wrong key", async () => {
    const { limiter } = createApi();
    expect(() => limitedFetch({} as Limiter)).toThrow("\"limiter\" expected a Limiter, got an object");
    await expect(limitedFetch(limiter, { key: () => null as never })("http://127.0.0.1:1/")).rejects.toThrow(
      "\"key\" expected a string, number, bigint or Uint8Array, got null",
    );
  });
});
