/** From a request to an answer: what is charged, which requests proceed, and what the user gets to know. */
import { type Limiter, ManualClock, Sluice } from "sluice";
import {
  type Answer,
  clientAddress,
  Guard,
  type GuardOptions,
  type OwnResponse,
  plainReader,
  type PlainRequest,
  type ProblemType,
} from "sluice/http";
import { describe, expect, it } from "vitest";
import { create, open } from "../../tables.js";

function createLimiters(): { sluice: Sluice; clock: ManualClock; user: Limiter; tenant: Limiter; everybody: Limiter } {
  const { sluice, clock } = create();
  return {
    sluice,
    clock,
    user: sluice.tokenBucket("user", { rate: 1, burst: 3, tiers: { gold: { burst: 30 } } }),
    tenant: sluice.tokenBucket("tenant", { rate: 1, burst: 10 }),
    everybody: sluice.tokenBucket("everybody", { rate: 1, burst: 100 }),
  };
}

type Options = GuardOptions<PlainRequest>;

function from(headers: PlainRequest["headers"] = {}, remoteAddress?: string, url = "/"): PlainRequest {
  return { method: "GET", url, headers, remoteAddress };
}

/** A guard that answers at once. */
function guard(options: Options): (request?: PlainRequest) => Answer {
  const made = new Guard(options, plainReader);
  return (request = from()) => {
    const answer = made.decide(request);
    expect(answer).not.toBeInstanceOf(Promise);
    return answer as Answer;
  };
}

const header = (name: string) => ({ headers }: PlainRequest): string => String(headers[name]);
const left = (limiter: Limiter, key?: string): number =>
  (key === undefined ? limiter.global.peek(0) : limiter.peek(key, 0)).remaining;

describe("a guard", () => {
  it("charges every limit or none", () => {
    const { user, tenant, everybody } = createLimiters();
    const ask = guard({
      limits: [{ limiter: tenant, key: header("tenant") }, { limiter: user, key: header("user") }, {
        limiter: everybody,
      }],
    });
    const alice = from({ user: "alice", tenant: "acme" });
    for (let i = 0; i < 3; i++) {
      expect(ask(alice)).toMatchObject({
        allowed: true,
        status: 200,
        body: undefined,
        refusal: undefined,
        policy: "user",
      });
    }
    expect(ask(alice)).toMatchObject({
      allowed: false,
      status: 429,
      refusal: "limited",
      policy: "user",
      decision: { allowed: false, remaining: 0, retryAfterMs: 1000 },
    });
    expect([left(tenant, "acme"), left(user, "alice"), left(everybody)]).toEqual([7, 0, 97]);
    expect(ask(from({ user: "bob", tenant: "acme" })).allowed).toBe(true);
  });

  it("takes the cost of each request", () => {
    const { tenant, everybody } = createLimiters();
    const ask = guard({
      limits: [{ limiter: tenant, cost: ({ url }) => (url === "/search" ? 5 : 1) }, { limiter: everybody, cost: 2 }],
    });
    ask(from({}, undefined, "/search"));
    ask(from());
    expect([left(tenant), left(everybody)]).toEqual([4, 96]);
    expect(ask(from({}, undefined, "/search")).policy).toBe("tenant");
    expect([left(tenant), left(everybody)]).toEqual([4, 96]);
  });

  it("charges nothing for a cost of 0", () => {
    const { user } = createLimiters();
    const ask = guard({ limits: [{ limiter: user, cost: 0 }] });
    for (let i = 0; i < 10; i++) expect(ask().allowed).toBe(true);
    expect(left(user)).toBe(3);
  });

  it("chooses a limiter by the request, and leaves out limits that do not apply", () => {
    const { user, everybody } = createLimiters();
    const ask = guard({
      limits: [
        {
          limiter: (
            { headers },
          ) => (headers.tier === "none" ? null : headers.tier === "gold" ? user.tier("gold") : user),
          key: header("user"),
        },
        { limiter: everybody, key: ({ headers }) => (headers.internal ? null : "all") },
      ],
    });
    expect(ask(from({ user: "alice" })).fields.join()).toContain("\"user\";q=3;w=3, \"everybody\";q=100;w=100");
    expect(ask(from({ user: "alice", tier: "gold" })).fields.join()).toContain(
      "\"user/gold\";q=30;w=30, \"everybody\";q=100;w=100,RateLimit,\"user/gold\";r=29;t=1",
    );
    expect(ask(from({ user: "alice", tier: "gold", internal: "1" })).fields.join()).toBe(
      "RateLimit-Policy,\"user/gold\";q=30;w=30,RateLimit,\"user/gold\";r=28;t=2",
    );
    expect(ask(from({ tier: "none" })).policy).toBe("everybody");
    expect(ask(from({ tier: "none", internal: "1" }))).toEqual({
      allowed: true,
      status: 200,
      fields: [],
      body: undefined,
      refusal: undefined,
      policy: undefined,
      decision: undefined,
    });
    expect([left(user, "alice"), left(user.tier("gold"), "alice"), left(everybody, "all")]).toEqual([2, 28, 97]);
  });

  it("asks skip before anything else", () => {
    const { user } = createLimiters();
    const ask = guard({
      limits: [{
        limiter: user,
        key: () => {
          throw new Error("asked");
        },
      }],
      skip: ({ url }) => url === "/health",
      client: clientAddress(),
      deny: { addresses: ["0.0.0.0/0"] },
    });
    expect(ask(from({}, "203.0.113.7", "/health"))).toMatchObject({ allowed: true, fields: [] });
    expect(ask(from({}, "203.0.113.7")).status).toBe(403);
  });

  it.each<[ProblemType | undefined, number]>([
    [undefined, 429],
    ["quota-exceeded", 429],
    ["abnormal-usage-detected", 429],
    ["temporary-reduced-capacity", 503],
  ])("refuses with the problem %s", (problem, status) => {
    const { user } = createLimiters();
    const ask = guard({ limits: [{ limiter: user, cost: 3, ...(problem && { problem }) }] });
    ask();
    const answer = ask();
    expect(answer.status).toBe(status);
    expect(answer.fields.slice(-4)).toEqual(["Retry-After", "3", "Content-Type", "application/problem+json"]);
    const { title, ...body } = JSON.parse(answer.body!) as Record<string, unknown>;
    expect(title).toMatch(/^Request /);
    expect(body).toEqual({
      type: `https://iana.org/assignments/http-problem-types#${problem ?? "quota-exceeded"}`,
      status,
      "violated-policies": ["user"],
    });
  });

  it("sends no Retry-After if no retry can succeed", () => {
    const { user } = createLimiters();
    const answer = guard({ limits: [{ limiter: user, cost: 4 }] })();
    expect(answer).toMatchObject({ allowed: false, status: 429, decision: { retryAfterMs: Infinity } });
    expect(answer.fields).not.toContain("Retry-After");
  });

  it("calls onLimited with every refusal and its request, and waits for its promise", async () => {
    const { user } = createLimiters();
    const calls: [string, Answer][] = [];
    const options: Options = {
      limits: [{ limiter: user, key: header("user") }],
      client: clientAddress(),
      deny: { keys: ["mallory"] },
      onLimited: ({ url }, answer) => {
        calls.push([url, answer]);
      },
    };
    const ask = guard(options);
    const answers = ["/1", "/2", "/3", "/4"].map((url) => ask(from({ user: "alice" }, undefined, url)));
    const denied = ask(from({ user: "mallory" }, undefined, "/5"));
    expect(calls).toEqual([["/4", answers[3]], ["/5", denied]]);

    let done = false;
    const slow = new Guard({
      ...options,
      onLimited: async () => {
        await Promise.resolve();
        done = true;
      },
    }, plainReader);
    const promised = slow.decide(from({ user: "alice" }));
    expect(done).toBe(false);
    expect((await promised).status).toBe(429);
    expect(done).toBe(true);
  });

  it("answers with a response of the user, and keeps its own fields", () => {
    const { user } = createLimiters();
    const limits = [{ limiter: user, cost: 3 }];
    const ask = guard({
      limits,
      respond: (request, answer) => ({
        status: 420,
        contentType: "text/plain",
        body: `${request.url} ${answer.policy} ${answer.decision!.retryAfterMs}`,
      }),
    });
    ask();
    expect(ask(from({}, undefined, "/x"))).toMatchObject({
      allowed: false,
      status: 420,
      body: "/x user 3000",
      fields: [
        "RateLimit-Policy",
        "\"user\";q=3;w=3",
        "RateLimit",
        "\"user\";r=0;t=3",
        "Retry-After",
        "3",
        "Content-Type",
        "text/plain",
      ],
    });
    const { body } = guard({ limits })();
    expect(guard({ limits, respond: () => ({}) })()).toMatchObject({ status: 429, body });
    expect(() => guard({ limits, respond: () => undefined as never })()).toThrow(
      new TypeError("\"respond()\" expected an object, got undefined"),
    );
  });

  it("waits for a promised response of the user, and reports it", async () => {
    const { user } = createLimiters();
    const reported: Answer[] = [];
    const made = new Guard<PlainRequest>({
      limits: [{ limiter: user, cost: 3 }],
      respond: async () => ({ status: 420, body: "later" }),
      onLimited: (_, answer) => {
        reported.push(answer);
      },
    }, plainReader);
    expect(made.decide(from())).toMatchObject({ allowed: true });
    const answer = made.decide(from());
    expect(answer).toBeInstanceOf(Promise);
    expect(await answer).toMatchObject({ allowed: false, status: 420, body: "later" });
    expect(reported).toEqual([await answer]);
  });

  it.each<[OwnResponse, string]>([
    [{ status: 42 }, "\"respond().status\" expected an integer from 200 to 599, got 42"],
    [{ status: NaN }, "\"respond().status\" expected an integer from 200 to 599, got NaN"],
    [{ status: "429" as never }, "\"respond().status\" expected an integer from 200 to 599, got \"429\""],
    [
      { content: "text/plain" } as never,
      "\"respond()\" has no option \"content\"; did you mean \"contentType\"?",
    ],
    [{ body: 5 as never }, "\"respond().body\" expected a string, got 5"],
    [
      { contentType: "text/plain\r\nSet-Cookie: a=b" },
      "\"respond().contentType\" expected a media type, got \"text/plain\\r\\nSet-Cookie: a=b\"",
    ],
    [{ contentType: 1 as never }, "\"respond().contentType\" expected a media type, got 1"],
  ])("throws for a response of the user that no server could send, %#", async (own, message) => {
    const { user } = createLimiters();
    const options = { limits: [{ limiter: user, cost: 4 }] };
    expect(() => guard({ ...options, respond: () => own })()).toThrow(message);
    await expect(new Guard<PlainRequest>({ ...options, respond: async () => own }, plainReader).decide(from())).rejects
      .toThrow(message);
  });

  it("in shadow mode decides, counts, sends fields and reports, and refuses no request", () => {
    const { sluice, user } = createLimiters();
    const reported: Answer[] = [];
    const ask = guard({
      limits: [{ limiter: user }],
      shadow: true,
      client: clientAddress(),
      deny: { addresses: ["203.0.113.7"] },
      onLimited: (_, answer) => reported.push(answer),
      respond: () => {
        throw new Error("asked");
      },
    });
    const answers = Array.from({ length: 5 }, () => ask());
    expect(answers.map(({ allowed, status, refusal }) => [allowed, status, refusal])).toEqual([
      ...Array(3).fill([true, 200, undefined]),
      ...Array(2).fill([true, 200, "limited"]),
    ]);
    expect(answers[4]).toMatchObject({
      policy: "user",
      decision: { allowed: false, retryAfterMs: 1000 },
      body: undefined,
      fields: ["RateLimit-Policy", "\"user\";q=3;w=3", "RateLimit", "\"user\";r=0;t=1"],
    });
    const denied = ask(from({}, "203.0.113.7"));
    expect(denied).toMatchObject({ allowed: true, status: 200, refusal: "denied", fields: [] });
    expect(reported).toEqual([answers[3], answers[4], denied]);
    expect(sluice.stats().limiters.user).toMatchObject({ allowed: 3, denied: 2 });
  });
});

describe("lists", () => {
  const client = clientAddress({ hops: 1, ipv6Prefix: 32 });
  const by = (address: string): PlainRequest => from({ "x-forwarded-for": address, user: "alice" }, "10.0.0.1");

  it("admit and refuse by address, uncounted; a denied address is refused even if it is allowed", () => {
    const { user } = createLimiters();
    const ask = guard({
      limits: [{ limiter: user, key: client }],
      client,
      allow: { addresses: ["192.0.2.0/24", "2001:db8:1::/48", "203.0.113.9"] },
      deny: { addresses: ["203.0.113.8/30", "2001:db8:1:2::/64"] },
    });
    for (const address of ["192.0.2.0", "::ffff:192.0.2.255", "2001:DB8:1::1", "[2001:db8:1:3::]:80"]) {
      expect(ask(by(address)), address).toMatchObject({ allowed: true, fields: [], decision: undefined });
    }
    for (const address of ["203.0.113.8", "203.0.113.9", "203.0.113.11", "::ffff:cb00:710b", "2001:db8:1:2:ffff::"]) {
      expect(ask(by(address)), address).toMatchObject({
        allowed: false,
        status: 403,
        refusal: "denied",
        policy: undefined,
        decision: undefined,
        fields: ["Content-Type", "application/problem+json"],
      });
    }
    for (const address of ["192.0.3.0", "203.0.113.7", "203.0.113.12", "2001:db8:2::"]) {
      expect(ask(by(address)).decision, address).toMatchObject({ allowed: true });
    }
    expect(JSON.parse(ask(by("203.0.113.8")).body!)).toEqual({ type: "about:blank", title: "Forbidden", status: 403 });
    expect(left(user, "203.0.113.8")).toBe(3);
  });

  it("name the peers on a Unix socket unix", () => {
    const { user } = createLimiters();
    const ask = guard({ limits: [{ limiter: user }], client: clientAddress(), allow: { addresses: ["unix"] } });
    expect(ask(from()).decision).toBeUndefined();
    expect(ask(from({}, "127.0.0.1")).decision).toBeDefined();
  });

  it("deny a peer that has disconnected, and never allow it", () => {
    const { user } = createLimiters();
    const denying = guard({
      limits: [{ limiter: user }],
      client: clientAddress(),
      deny: { addresses: ["203.0.113.0/24"] },
    });
    expect(denying(from({}, "gone"))).toMatchObject({ allowed: false, status: 403 });
    const allowing = guard({
      limits: [{ limiter: user }],
      client: clientAddress(),
      allow: { addresses: ["unix", "0.0.0.0/0"] },
    });
    expect(allowing(from({}, "gone")).decision).toBeDefined();
  });

  it("admit and refuse by the key of any limit; a denied key is refused even if it is allowed", () => {
    const { user, tenant } = createLimiters();
    const ask = guard({
      limits: [{ limiter: tenant, key: header("tenant") }, { limiter: user, key: header("user") }],
      allow: { keys: ["ops", "friend"] },
      deny: { keys: ["mallory", "friend"] },
    });
    expect(ask(from({ user: "ops", tenant: "acme" }))).toMatchObject({ allowed: true, decision: undefined });
    expect(ask(from({ user: "alice", tenant: "ops" }))).toMatchObject({ allowed: true, decision: undefined });
    expect(ask(from({ user: "mallory", tenant: "acme" })).status).toBe(403);
    expect(ask(from({ user: "ops", tenant: "mallory" })).status).toBe(403);
    expect(ask(from({ user: "friend", tenant: "acme" })).status).toBe(403);
    expect(ask(from({ user: "alice", tenant: "acme" })).decision).toBeDefined();
    expect([left(tenant, "acme"), left(user, "alice")]).toEqual([9, 2]);
  });

  it("are asked in order: denied addresses, allowed addresses, denied keys, allowed keys", () => {
    const { user } = createLimiters();
    const ask = guard({
      limits: [{ limiter: user, key: header("user") }],
      client: clientAddress(),
      allow: { addresses: ["10.0.0.0/8"], keys: ["ops"] },
      deny: { addresses: ["10.0.0.66", "203.0.113.66"], keys: ["mallory"] },
    });
    const statusOf = (name: string, address: string): number => ask(from({ user: name }, address)).status;
    expect([statusOf("ops", "10.0.0.66"), statusOf("ops", "203.0.113.66")]).toEqual([403, 403]);
    expect([statusOf("mallory", "10.0.0.1"), statusOf("mallory", "203.0.113.1")]).toEqual([200, 403]);
    expect(left(user, "mallory")).toBe(3);
  });

  it("separate numbers, bigints and strings", () => {
    const { user } = createLimiters();
    const ask = (key: string | number | bigint): number =>
      guard({ limits: [{ limiter: user, key: () => key }], deny: { keys: [1, "2", 3n] } })().status;
    expect([ask(1), ask("1"), ask("2"), ask(2), ask(3n), ask(3)]).toEqual([403, 200, 403, 200, 403, 200]);
  });
});

describe("functions that return promises", () => {
  const later = <Value>(value: Value): Promise<Value> => Promise.resolve().then(() => value);

  it("may be any of them", async () => {
    const { user, everybody } = createLimiters();
    const made = new Guard<PlainRequest>({
      limits: [
        { limiter: () => later(user), key: () => later("alice"), cost: () => later(2) },
        { limiter: everybody, cost: () => later(3) },
        { limiter: everybody, key: () => later(null) },
        { limiter: () => later(null) },
      ],
      skip: ({ url }) => later(url === "/health"),
    }, plainReader);
    expect(await made.decide(from())).toMatchObject({ allowed: true, policy: "user" });
    expect([left(user, "alice"), left(everybody)]).toEqual([1, 97]);
    expect(await made.decide(from({}, undefined, "/health"))).toMatchObject({ allowed: true, fields: [] });
    expect(await made.decide(from())).toMatchObject({ allowed: false, status: 429 });
    expect([left(user, "alice"), left(everybody)]).toEqual([1, 97]);
  });

  it("may return any thenable", async () => {
    const { user } = createLimiters();
    const soon = <Value>(value: Value): PromiseLike<Value> => ({ then: (resolve: any) => resolve(value) });
    const made = new Guard<PlainRequest>({
      limits: [{ limiter: user, key: () => soon("alice"), cost: () => soon(3) }],
      skip: () => soon(false),
      onLimited: () => soon(undefined),
    }, plainReader);
    for (const status of [200, 429]) {
      const answer = made.decide(from());
      expect(answer).toBeInstanceOf(Promise);
      expect((await answer).status).toBe(status);
    }
  });

  it("are called once for each request", async () => {
    const { user, everybody } = createLimiters();
    const calls: string[] = [];
    const noting = <Value>(name: string, value: Value) => (): Value => {
      calls.push(name);
      return value;
    };
    const made = new Guard<PlainRequest>({
      limits: [
        { limiter: noting("limiter 0", user), key: noting("key 0", later("alice")), cost: noting("cost 0", 1) },
        {
          limiter: noting("limiter 1", later(everybody)),
          key: noting("key 1", "all"),
          cost: noting("cost 1", later(1)),
        },
        { limiter: everybody, key: noting("key 2", "x"), cost: noting("cost 2", later(1)) },
      ],
    }, plainReader);
    await made.decide(from());
    expect(calls.toSorted()).toEqual([
      "cost 0",
      "cost 1",
      "cost 2",
      "key 0",
      "key 1",
      "key 2",
      "limiter 0",
      "limiter 1",
    ]);
  });

  it.each<[string, Partial<Options>["limits"]]>([
    ["at once", [{ limiter: null as never, key: () => "alice" }, {
      limiter: null as never,
      key: () => {
        throw new Error("lost");
      },
    }]],
    ["later", [{ limiter: null as never, key: () => "alice" }, {
      limiter: null as never,
      cost: () =>
        later(1).then(() => {
          throw new Error("lost");
        }),
    }]],
    ["at once, after one that promised", [{ limiter: null as never, key: () => later("alice") }, {
      limiter: null as never,
      key: () => {
        throw new Error("lost");
      },
    }]],
    ["later, like another one", [{ limiter: null as never, key: () => Promise.reject(new Error("lost")) }, {
      limiter: null as never,
      cost: () => Promise.reject(new Error("lost")),
    }]],
  ])("that throw %s make the decision fail and take nothing", async (_, limits) => {
    const { user } = createLimiters();
    const made = new Guard<PlainRequest>(
      { limits: limits!.map((limit) => ({ ...limit, limiter: user })) },
      plainReader,
    );
    await expect((async () => made.decide(from()))()).rejects.toThrow("lost");
    expect([left(user, "alice"), left(user)]).toEqual([3, 3]);
  });
});

describe("the answers of the user's functions", () => {
  it.each<[string, (user: Limiter) => Options["limits"][0], string]>([
    [
      "key",
      (user) => ({ limiter: user, key: () => undefined as never }),
      "\"limits[1].key\" expected a key, or null if the limit does not apply, got undefined",
    ],
    ["key", (user) => ({ limiter: user, key: () => NaN }), "\"key\" expected a finite number, got NaN"],
    [
      "key",
      (user) => ({ limiter: user, key: () => ({}) as never }),
      "\"key\" expected a string, number, bigint or Uint8Array, got an object",
    ],
    [
      "cost",
      (user) => ({ limiter: user, cost: () => -1 }),
      "\"cost\" expected an integer from 0 to 2147483647, got -1",
    ],
    [
      "cost",
      (user) => ({ limiter: user, cost: () => NaN }),
      "\"cost\" expected an integer from 0 to 2147483647, got NaN",
    ],
    [
      "cost",
      (user) => ({ limiter: user, cost: () => "1" as never }),
      "\"cost\" expected an integer from 0 to 2147483647, got \"1\"",
    ],
    [
      "limiter",
      () => ({ limiter: () => undefined as never }),
      "\"limits[1].limiter\" expected a limiter, or null if the limit does not apply, got undefined",
    ],
    [
      "limiter",
      () => ({ limiter: () => createLimiters().sluice.tokenBucket("far", { rate: 1, burst: 1 }) }),
      "\"entries[1]\" expected a limiter of the same Sluice as the others, got \"far\" of another",
    ],
    [
      "limiter",
      (user) => ({ limiter: () => open[0].tokenBucket("Zoë", { rate: 1, burst: user.burst }) }),
      "\"limits[1].limiter\" expected a limiter with a name of printable ASCII, which 'draft-11' headers carry, got \"Zoë\"",
    ],
  ])("are checked before anything is taken: %s, %#", (_, limit, message) => {
    const { user, everybody } = createLimiters();
    const made = new Guard<PlainRequest>({ limits: [{ limiter: everybody }, limit(user)] }, plainReader);
    expect(() => made.decide(from())).toThrow(message);
    expect([left(user), left(everybody)]).toEqual([3, 100]);
  });

  it("may be keys of any length and type", () => {
    const { user } = createLimiters();
    for (
      const key of ["", "x".repeat(2 ** 20), "\ud800", "__proto__", "Zoë", -0, 1e300, 2n ** 70n, new Uint8Array(3)]
    ) {
      const ask = guard({ limits: [{ limiter: user, key: () => key, sendsKey: true }], allow: { keys: ["z"] } });
      expect([ask(), ask(), ask(), ask()].map(({ allowed }) => allowed)).toEqual([true, true, true, false]);
    }
  });
});

describe("options", () => {
  it.each<[(user: Limiter) => unknown, string]>([
    [() => null, "\"options\" expected an object, got null"],
    [() => ({}), "\"limits\" expected an array of one { limiter, key?, cost? } or more, got undefined"],
    [() => ({ limits: [] }), "\"limits\" expected an array of one { limiter, key?, cost? } or more, got an array"],
    [
      (user) => ({ limits: [{ limiter: user, keyGenerator: () => "alice" }] }),
      "\"limits[0]\" has no option \"keyGenerator\"; did you mean \"key\"?",
    ],
    [
      (user) => ({ limits: [{ limiter: user }], header: "none" }),
      "\"options\" has no option \"header\"; did you mean \"headers\"?",
    ],
    [
      (user) => ({ limits: [{ limiter: user }], deny: { address: ["10.0.0.1"] } }),
      "\"deny\" has no option \"address\"; did you mean \"addresses\"?",
    ],
    [(user) => ({ limits: [user] }), "\"limits[0]\" has no option"],
    [() => ({ limits: [{}] }), "\"limits[0].limiter\" expected a limiter or a function, got undefined"],
    [() => ({ limits: [null] }), "\"limits[0]\" expected an object, got null"],
    [() => ({ limits: [{ limiter: "user" }] }), "\"limits[0].limiter\" expected a limiter or a function, got \"user\""],
    [(user) => ({ limits: [{ limiter: user, key: "alice" }] }), "\"limits[0].key\" expected a function, got \"alice\""],
    [
      (user) => ({ limits: [{ limiter: user, cost: 1.5 }] }),
      "\"cost\" expected an integer from 0 to 2147483647, got 1.5",
    ],
    [
      (user) => ({ limits: [{ limiter: user, cost: 2 ** 53 }] }),
      "\"cost\" expected an integer from 0 to 2147483647, got 9007199254740992",
    ],
    [
      (user) => ({ limits: [{ limiter: user, problem: "too-much" }] }),
      `"limits[0].problem" expected 'quota-exceeded', 'temporary-reduced-capacity', 'abnormal-usage-detected', got "too-much"`,
    ],
    [(user) => ({ limits: [{ limiter: user, problem: "__proto__" }] }), "\"limits[0].problem\" expected"],
    [(user) => ({ limits: [{ limiter: user, sendsKey: 1 }] }), "\"limits[0].sendsKey\" expected true or false, got 1"],
    [
      (user) => ({ limits: [{ limiter: user }, { limiter: createLimiters().user }] }),
      "\"limits[1].limiter\" expected a limiter of the same Sluice as the others, got \"user\" of another",
    ],
    [
      (user) => ({ limits: [{ limiter: user }], headers: "draft-8" }),
      `"headers" expected 'draft-11', 'draft-7', 'draft-6', 'x-ratelimit', 'none', got "draft-8"`,
    ],
    [(user) => ({ limits: [{ limiter: user }], skip: true }), "\"skip\" expected a function, got true"],
    [(user) => ({ limits: [{ limiter: user }], onLimited: "log" }), "\"onLimited\" expected a function, got \"log\""],
    [(user) => ({ limits: [{ limiter: user }], respond: {} }), "\"respond\" expected a function, got an object"],
    [(user) => ({ limits: [{ limiter: user }], shadow: "yes" }), "\"shadow\" expected true or false, got \"yes\""],
    [
      (user) => ({ limits: [{ limiter: user }], client: () => "10.0.0.1" }),
      "\"client\" expected clientAddress(...), got a function",
    ],
    [
      (user) => ({ limits: [{ limiter: user }], allow: { addresses: ["10.0.0.1"] } }),
      "\"client\" expected clientAddress(...), which \"allow.addresses\" needs, got undefined",
    ],
    [
      (user) => ({ limits: [{ limiter: user }], deny: ["10.0.0.1"], client: clientAddress() }),
      "\"deny\" expected an object, got an array",
    ],
    [
      (user) => ({ limits: [{ limiter: user }], deny: { addresses: ["10.0.0.1", "x"] }, client: clientAddress() }),
      "\"deny.addresses[1]\" expected an IP address, a range such as \"10.0.0.0/8\", or \"unix\", got \"x\"",
    ],
    [
      (user) => ({ limits: [{ limiter: user }], deny: { keys: "mallory" } }),
      "\"deny.keys\" expected an array of keys, got \"mallory\"",
    ],
    [
      (user) => ({ limits: [{ limiter: user }], deny: { keys: [new Uint8Array(1)] } }),
      "\"deny.keys[0]\" expected a string, number or bigint, got an object",
    ],
  ])("%# that are wrong are refused when the guard is made", (options, message) => {
    const { user } = createLimiters();
    expect(() => new Guard(options(user) as Options, plainReader)).toThrow(message);
  });
});
