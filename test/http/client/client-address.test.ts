/**
 * The client of a request: one canonical form for an address, and no trust in headers
 * that anyone could have sent.
 */
import fc from "fast-check";
import ipaddr from "ipaddr.js";
import { clientAddress, type ClientRule, plainReader, type PlainRequest } from "sluice/http";
import { describe, expect, it } from "vitest";
import { peerAddress } from "../../../src/http/client/reader.js";
import { announceSeed } from "../../seed.js";

/** The key of a request from `remoteAddress` with these headers. */
function keyOf(rule: ClientRule, remoteAddress: string | undefined, headers: PlainRequest["headers"] = {}): string {
  return clientAddress(rule)({ method: "GET", url: "/", headers, remoteAddress }, plainReader);
}

const forwardedFor = (value: string | string[]): PlainRequest["headers"] => ({ "x-forwarded-for": value });
const forwarded = (value: string | string[]): PlainRequest["headers"] => ({ forwarded: value });

describe("the key of an address", () => {
  it.each([
    ["203.0.113.7", "203.0.113.7"],
    ["::ffff:203.0.113.7", "203.0.113.7"],
    ["::FFFF:203.0.113.7", "203.0.113.7"],
    ["::ffff:cb00:7107", "203.0.113.7"],
    ["0:0:0:0:0:ffff:cb00:7107", "203.0.113.7"],
    ["0000:0000:0000:0000:0000:FFFF:CB00:7107", "203.0.113.7"],
    ["64:ff9b::203.0.113.7", "203.0.113.7"],
    ["64:ff9b::cb00:7107", "203.0.113.7"],
    ["0064:FF9B:0:0:0:0:CB00:7107", "203.0.113.7"],
    ["2001:db8:0:1ff::1", "2001:db8:0:100::/56"],
    ["2001:DB8:0:01FF:0000::1", "2001:db8:0:100::/56"],
    ["2001:db8:0:100:ffff:ffff:ffff:ffff", "2001:db8:0:100::/56"],
    ["2001:db8:0:200::1", "2001:db8:0:200::/56"],
    ["fe80::1%eth0", "fe80::/56"],
    ["fe80::1%25", "fe80::/56"],
    ["::1", "::/56"],
    // Neither is in the mapped range: an address of its own.
    ["::203.0.113.7", "::/56"],
    ["64:ff9b:1::203.0.113.7", "64:ff9b:1::/56"],
  ])("%s is %s", (address, key) => {
    expect(keyOf({}, address)).toBe(key);
    // The second answer comes from the cache.
    const client = clientAddress();
    for (let i = 0; i < 2; i++) {
      expect(client({ method: "GET", url: "/", headers: {}, remoteAddress: address }, plainReader)).toBe(key);
    }
  });

  it.each<[ClientRule["ipv6Prefix"], string, string]>([
    [32, "2001:db8:ffff::1", "2001:db8::/32"],
    [48, "2001:db8:1:ffff::1", "2001:db8:1::/48"],
    [60, "2001:db8:1:ffff::1", "2001:db8:1:fff0::/60"],
    [61, "2001:db8:1:ffff::1", "2001:db8:1:fff8::/61"],
    [64, "2001:db8:1:ffff::1", "2001:db8:1:ffff::/64"],
    [128, "2001:DB8:1:FFFF::1", "2001:db8:1:ffff::1"],
    [false, "2001:DB8:1:FFFF::1", "2001:db8:1:ffff::1"],
    [32, "203.0.113.7", "203.0.113.7"],
  ])("by ipv6Prefix %s of %s is %s", (ipv6Prefix, address, key) => {
    expect(keyOf({ ipv6Prefix }, address)).toBe(key);
  });

  it("is the same for every spelling of the same bits, and different for others", () => {
    const seed = announceSeed("spellings of an address");
    const bytes = fc.array(fc.oneof(fc.constant(0), fc.nat(255)), { minLength: 16, maxLength: 16 });
    const spell = (address: ipaddr.IPv6, how: number): string => {
      const fixed = address.parts.map((part) => part.toString(16).padStart(4, "0")).join(":");
      const text =
        [address.toString(), address.toNormalizedString(), fixed, `${address.toRFC5952String()}%eth0`][how % 4];
      return how & 4 ? text.toUpperCase() : text;
    };
    fc.assert(
      fc.property(
        bytes,
        fc.nat(127),
        fc.nat(7),
        fc.nat(7),
        fc.integer({ min: 32, max: 128 }),
        (bits, flipped, how, other, ipv6Prefix) => {
          const one = new ipaddr.IPv6(bits);
          expect(keyOf({ ipv6Prefix }, spell(one, how))).toBe(keyOf({ ipv6Prefix }, spell(one, other)));
          const two = new ipaddr.IPv6(
            bits.map((byte, i) => (i === flipped >> 3 ? byte ^ (0x80 >> (flipped & 7)) : byte)),
          );
          expect(keyOf({ ipv6Prefix }, spell(one, how)) === keyOf({ ipv6Prefix }, spell(two, other))).toBe(
            flipped >= ipv6Prefix,
          );
        },
      ),
      { seed, numRuns: 1000 },
    );
  });

  it("of an IPv4 client is the same for the plain, the mapped and the translated address, whatever the prefix", () => {
    const seed = announceSeed("IPv4 in IPv6");
    fc.assert(
      fc.property(fc.ipV4(), fc.integer({ min: 32, max: 128 }), (text, ipv6Prefix) => {
        const address = ipaddr.IPv4.parse(text);
        const hex = address.toIPv4MappedAddress().toString();
        for (const each of [text, `::ffff:${text}`, hex, hex.toUpperCase(), hex.replace("::ffff", "64:ff9b:")]) {
          expect(keyOf({ ipv6Prefix }, each)).toBe(text);
        }
      }),
      { seed, numRuns: 500 },
    );
  });

  it("on a Unix socket is the same for all peers, unless a proxy reports another", () => {
    expect(keyOf({}, undefined)).toBe("unix");
    expect(keyOf({}, undefined, forwardedFor("203.0.113.7"))).toBe("unix");
    expect(keyOf({ hops: 1 }, undefined, forwardedFor("203.0.113.7"))).toBe("203.0.113.7");
    expect(keyOf({ trusted: ["10.0.0.0/8"] }, undefined, forwardedFor("203.0.113.7"))).toBe("unix");
    expect(keyOf({ trusted: ["unix"] }, undefined, forwardedFor("203.0.113.7"))).toBe("203.0.113.7");
    expect(keyOf({ trusted: ["unix"] }, "10.0.0.1", forwardedFor("203.0.113.7"))).toBe("10.0.0.1");
  });

  it("of a peer that has disconnected is gone, and it is never trusted", () => {
    const [remoteAddress, localAddress] = ["203.0.113.7", "127.0.0.1"];
    expect(peerAddress({ remoteAddress, localAddress })).toBe(remoteAddress);
    expect(peerAddress({ localAddress })).toBe("gone");
    expect(peerAddress({ destroyed: true })).toBe("gone");
    expect(peerAddress({ destroyed: false })).toBeUndefined();
    expect(keyOf({}, "gone")).toBe("gone");
    expect(keyOf({ trusted: ["unix", "0.0.0.0/0", "::/0"] }, "gone", forwardedFor("203.0.113.7"))).toBe("gone");
  });
});

describe("behind proxies", () => {
  it("no header is read unless the rule says so", () => {
    const headers = { "x-forwarded-for": "198.51.100.1", forwarded: "for=198.51.100.1", "x-real-ip": "198.51.100.1" };
    expect(keyOf({}, "10.0.0.1", headers)).toBe("10.0.0.1");
    expect(keyOf({ hops: 0 }, "10.0.0.1", headers)).toBe("10.0.0.1");
    expect(keyOf({ hops: 0, header: "forwarded" }, "10.0.0.1", headers)).toBe("10.0.0.1");
  });

  it.each<[string, ClientRule, string | string[], string]>([
    ["one hop is the last entry", { hops: 1 }, "198.51.100.1, 203.0.113.7", "203.0.113.7"],
    ["two hops are the last but one", { hops: 2 }, "198.51.100.1, 203.0.113.7, 10.0.0.2", "203.0.113.7"],
    ["fewer entries than hops end at the first", { hops: 3 }, "203.0.113.7, 10.0.0.2", "203.0.113.7"],
    ["no entry leaves the peer", { hops: 1 }, "", "10.0.0.1"],
    ["spaces and tabs are ignored", { hops: 1 }, "198.51.100.1,\t 203.0.113.7 \t", "203.0.113.7"],
    ["repeated headers are one list", { hops: 2 }, ["198.51.100.1, 203.0.113.7", "10.0.0.2"], "203.0.113.7"],
    ["a port is dropped", { hops: 1 }, "203.0.113.7:4711", "203.0.113.7"],
    ["IPv6 may stand bare", { hops: 1 }, "2001:db8:0:1ff::1", "2001:db8:0:100::/56"],
    ["IPv6 may stand in brackets, with a port", { hops: 1 }, "[2001:db8:0:1ff::1]:4711", "2001:db8:0:100::/56"],
    ["a mapped address is IPv4", { hops: 1 }, "::ffff:203.0.113.7", "203.0.113.7"],
    [
      "trusted ranges are skipped from the right",
      { trusted: ["10.0.0.0/8", "192.0.2.1"] },
      "198.51.100.1, 203.0.113.7, 192.0.2.1, 10.1.2.3",
      "203.0.113.7",
    ],
    ["an untrusted peer is the client", { trusted: ["192.0.2.0/24"] }, "198.51.100.1", "10.0.0.1"],
    ["where all are trusted it is the farthest", { trusted: ["10.0.0.0/8"] }, "10.0.0.3, 10.0.0.2", "10.0.0.3"],
    ["a range of mapped addresses is one of IPv4", { trusted: ["::ffff:10.0.0.0/104"] }, "203.0.113.7", "203.0.113.7"],
    [
      "a proxy in another spelling is trusted too",
      { trusted: ["10.0.0.0/8"] },
      "203.0.113.7, ::FFFF:0a00:0002",
      "203.0.113.7",
    ],
  ])("%s", (_, rule, value, key) => {
    expect(keyOf(rule, "10.0.0.1", forwardedFor(value))).toBe(key);
  });

  it("an IPv6 range is matched by its bits", () => {
    for (
      const [peer, key] of [["2001:db8:7f::1", "203.0.113.7"], ["2001:DB8:7F:FFFF::", "203.0.113.7"], [
        "2001:db8:80::1",
        "2001:db8:80::1",
      ], ["fe80::1%eth0", "203.0.113.7"]]
    ) {
      expect(
        keyOf({ trusted: ["2001:db8:40::/42", "fe80::/10"], ipv6Prefix: false }, peer, forwardedFor("203.0.113.7")),
      ).toBe(key);
    }
  });

  it("the rule may name another header than X-Forwarded-For", () => {
    const headers = { "cf-connecting-ip": "203.0.113.7", "x-forwarded-for": "198.51.100.1" };
    expect(keyOf({ hops: 1, header: "CF-Connecting-IP" }, "10.0.0.1", headers)).toBe("203.0.113.7");
  });

  it.each<[string, string | string[], string]>([
    ["a plain address", "for=203.0.113.7", "203.0.113.7"],
    ["the last of several", "for=198.51.100.1, for=203.0.113.7", "203.0.113.7"],
    ["the last of repeated ones", ["for=198.51.100.1", "for=203.0.113.7"], "203.0.113.7"],
    ["names in upper case", "For=203.0.113.7;Proto=https", "203.0.113.7"],
    ["other parameters around it", "proto=https;by=10.0.0.9; for=203.0.113.7 ;host=example.org", "203.0.113.7"],
    ["a quoted address", "for=\"203.0.113.7\"", "203.0.113.7"],
    ["a quoted address with a port", "for=\"203.0.113.7:80\"", "203.0.113.7"],
    ["IPv6 in brackets", "for=\"[2001:DB8:0:1ff::1]\"", "2001:db8:0:100::/56"],
    ["IPv6 in brackets with a port", "for=\"[2001:db8:0:1ff::1]:4711\"", "2001:db8:0:100::/56"],
    ["an obfuscated port", "for=\"203.0.113.7:_p0rt\"", "203.0.113.7"],
    ["quoted pairs", "for=\"\\2\\0\\3.0.113.7\"", "203.0.113.7"],
    ["commas and semicolons in quotes", "for=203.0.113.7;host=\"a,for=198.51.100.1;b\"", "203.0.113.7"],
    ["escaped quotes after it", "for=203.0.113.7;host=\"\\\",for=198.51.100.1\\\"\"", "203.0.113.7"],
    ["an unclosed quote to the left", "for=\"198.51.100.1, for=203.0.113.7", "203.0.113.7"],
    ["\"unknown\": the peer", "for=unknown", "10.0.0.1"],
    ["an obfuscated name: the peer", "for=_hidden", "10.0.0.1"],
    ["no \"for\": the peer", "proto=https", "10.0.0.1"],
    ["two \"for\": the peer", "for=198.51.100.1;for=203.0.113.7", "10.0.0.1"],
    ["IPv6 without quotes: the peer", "for=[2001:db8::1]", "10.0.0.1"],
    ["a quote that never ends: the peer", "for=203.0.113.7;host=\"", "10.0.0.1"],
    ["text behind a quote: the peer", "for=\"203.0.113.7\"x", "10.0.0.1"],
    ["nothing: the peer", "", "10.0.0.1"],
  ])("Forwarded with %s", (_, value, key) => {
    expect(keyOf({ hops: 1, header: "forwarded" }, "10.0.0.1", forwarded(value))).toBe(key);
  });

  const malformed = [
    "unknown",
    "_hidden",
    "localhost",
    "203.0.113",
    "203.0.113.256",
    "203.0.113.07",
    "0xcb.0.113.7",
    "3405803783",
    "203.0.113.7.",
    "203.0.113.7:",
    "203.0.113.7:80:80",
    "[203.0.113.7",
    "2001:db8::1::2",
    "[2001:db8::1",
    "[2001:db8::1]x",
    "12345::",
    ":",
    "%eth0",
    "' or 1=1",
    "\u0000",
    "__proto__",
    "unix",
    "203.0.113.7 198.51.100.1",
    "203.0.113.7;",
    "1".repeat(5000),
  ];

  it.each(malformed)("a malformed hop, %j, leaves the last trusted address", (bad) => {
    expect(keyOf({ hops: 1 }, "10.0.0.1", forwardedFor(bad))).toBe("10.0.0.1");
    expect(keyOf({ hops: 3 }, "10.0.0.1", forwardedFor(`198.51.100.1, ${bad}, 10.0.0.2`))).toBe("10.0.0.2");
    expect(keyOf({ trusted: ["10.0.0.0/8"] }, "10.0.0.1", forwardedFor(`198.51.100.1, ${bad}, 10.0.0.2`))).toBe(
      "10.0.0.2",
    );
    expect(
      keyOf(
        { hops: 2, header: "forwarded" },
        "10.0.0.1",
        forwarded(`for=198.51.100.1, for="${bad.replaceAll("\"", "")}", for=10.0.0.2`),
      ),
    ).toBe("10.0.0.2");
  });

  it("nothing that a client sends left of the entries of the proxies changes the client", () => {
    const seed = announceSeed("left of the proxies");
    const garbage = fc.oneof(
      fc.string({ unit: fc.constantFrom(..."\",;=\\ []:.for1") }),
      fc.string({ unit: "binary" }),
      fc.constantFrom(...malformed),
    );
    fc.assert(
      fc.property(garbage, (left) => {
        expect(keyOf({ hops: 1 }, "10.0.0.1", forwardedFor(`${left},203.0.113.7`))).toBe("203.0.113.7");
        expect(keyOf({ trusted: ["10.0.0.0/8"] }, "10.0.0.1", forwardedFor(`${left}, 203.0.113.7, 10.0.0.2`))).toBe(
          "203.0.113.7",
        );
        expect(
          keyOf({ hops: 1, header: "forwarded" }, "10.0.0.1", forwarded(`${left}, for="203.0.113.7:1";host="x,y"`)),
        ).toBe("203.0.113.7");
      }),
      { seed, numRuns: 1000 },
    );
  });

  it("gives only addresses of the header or the peer, and never throws", () => {
    const seed = announceSeed("addresses of a header");
    const value = fc.string({ unit: fc.constantFrom(..."\",;=\\ []:.%/fFor12a\t\u00e9\ud800") });
    fc.assert(
      fc.property(
        value,
        fc.constantFrom<ClientRule>({ hops: 1 }, { hops: 3 }, { trusted: ["0.0.0.0/1", "::/1"] }),
        fc.constantFrom("x-forwarded-for", "forwarded"),
        (text, rule, header) => {
          const key = keyOf({ ...rule, header, ipv6Prefix: false }, "10.0.0.1", { [header]: text });
          expect(ipaddr.isValid(key)).toBe(true);
        },
      ),
      { seed, numRuns: 2000 },
    );
  });

  it("reads headers of a megabyte", () => {
    const client = "203.0.113.7";
    for (const filler of [",", "198.51.100.1, ", "x", "\"", "\\", " ", "for=\"", "10.0.0.3,"]) {
      const left = filler.repeat(2 ** 20 / filler.length);
      for (const rule of [{ hops: 1 }, { trusted: ["10.0.0.0/8"] }]) {
        expect(keyOf(rule, "10.0.0.1", forwardedFor(`${left},${client}`))).toBe(client);
        expect(keyOf({ ...rule, header: "forwarded" }, "10.0.0.1", forwarded(`${left},for=${client}`))).toBe(client);
        expect(ipaddr.isValid(keyOf(rule, "10.0.0.1", forwardedFor(left)))).toBe(true);
        expect(ipaddr.isValid(keyOf({ ...rule, header: "forwarded" }, "10.0.0.1", forwarded(left)))).toBe(true);
      }
    }
  });
});

describe("a rule", () => {
  it.each<[unknown, string]>([
    [null, "\"rule\" expected an object, got null"],
    [{ hops: -1 }, "\"hops\" expected an integer from 0 to 100, got -1"],
    [{ hops: 1.5 }, "\"hops\" expected an integer from 0 to 100, got 1.5"],
    [{ hops: "1" }, "\"hops\" expected an integer from 0 to 100, got \"1\""],
    [{ hops: NaN }, "\"hops\" expected an integer from 0 to 100, got NaN"],
    [{ hops: 1, trusted: ["10.0.0.0/8"] }, "\"rule\" expected either \"hops\" or \"trusted\", got both"],
    [{ header: "forwarded" }, "\"header\" expected \"hops\" or \"trusted\" with it, got neither"],
    [{ hop: 1 }, "\"rule\" has no option \"hop\"; did you mean \"hops\"?"],
    [{ trustedProxies: [] }, "\"rule\" has no option \"trustedProxies\"; did you mean \"trusted\"?"],
    [["10.0.0.0/8"], "\"rule\" expected an object, got an array"],
    [{ hops: 1, header: "x y" }, "\"header\" expected a header name, got \"x y\""],
    [{ hops: 1, header: 7 }, "\"header\" expected a header name, got 7"],
    [{ trusted: "10.0.0.0/8" }, "\"trusted\" expected an array of IP addresses and ranges, got \"10.0.0.0/8\""],
    [
      { trusted: ["unix", "loopback"] },
      "\"trusted[1]\" expected an IP address, a range such as \"10.0.0.0/8\", or \"unix\", got \"loopback\"",
    ],
    [
      { trusted: ["10.0.0.0/33"] },
      "\"trusted[0]\" expected an IP address, a range such as \"10.0.0.0/8\", or \"unix\", got \"10.0.0.0/33\"",
    ],
    [
      { trusted: ["::ffff:10.0.0.0/95"] },
      "\"trusted[0]\" expected an IP address, a range such as \"10.0.0.0/8\", or \"unix\", got \"::ffff:10.0.0.0/95\"",
    ],
    [
      { trusted: ["10.0.0.0/8/8"] },
      "\"trusted[0]\" expected an IP address, a range such as \"10.0.0.0/8\", or \"unix\", got \"10.0.0.0/8/8\"",
    ],
    [
      { trusted: ["10.0.0.0/-1"] },
      "\"trusted[0]\" expected an IP address, a range such as \"10.0.0.0/8\", or \"unix\", got \"10.0.0.0/-1\"",
    ],
    [{ trusted: [10] }, "\"trusted[0]\" expected an IP address, a range such as \"10.0.0.0/8\", or \"unix\", got 10"],
    [{ ipv6Prefix: 31 }, "\"ipv6Prefix\" expected an integer from 32 to 128, got 31"],
    [{ ipv6Prefix: 129 }, "\"ipv6Prefix\" expected an integer from 32 to 128, got 129"],
    [{ ipv6Prefix: true }, "\"ipv6Prefix\" expected an integer from 32 to 128, got true"],
  ])("%j is refused when it is made", (rule, message) => {
    expect(() => clientAddress(rule as ClientRule)).toThrow(message);
  });
});
