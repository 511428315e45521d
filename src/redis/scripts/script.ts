// The scripts of a limiter: one for each operation, made from its algorithm's
// Lua. What `take` needs is short: the limits are part of its text, so it is a
// script of this limiter alone, and a cost of 1 is not sent. On Redis 7.0 and
// ioredis every argument that is not sent saves 0.2 to 0.3 us at either end. The
// other operations take the limits as arguments and share a script.
//
// KEYS     one for each limit, all in one hash slot
// ARGV[1]  cost (of `take` it may be left out: 1)
// ARGV[2+] the limits, in as many numbers each as their algorithm has (not of `take`)
// then     of `reserve` the longest wait to accept, microseconds (-1: no bound);
//          of `cancel` what `reserve` answered as its turn
//
// `take` and `peek` answer what the algorithm reads a decision from. `reserve`
// answers 1 if granted, else 0; microseconds until it is due or, refused, would be
// granted; and what was reserved, for `cancel`. `give` and `charge` answer 1,
// `cancel` 1 if something went back. No cost is above what can be had at once.

import { createHash } from "node:crypto";
import { LUA_NOW } from "./preamble.js";

export type Operation = "take" | "reserve" | "peek" | "give" | "charge" | "cancel";

/** A script as Redis stores it: by the SHA-1 of its source. */
export interface Script {
  readonly source: string;
  readonly sha: string;
}

export function script(source: string): Script {
  return { source, sha: createHash("sha1").update(source).digest("hex") };
}

/** What an answer to 'take' or 'peek' says. */
export interface Reading {
  /** Whole tokens left. */
  readonly left: number;
  /** Microseconds until all is as new. */
  readonly fullUs: number;
  /** Microseconds until the cost would be there: 0 if it is, Infinity if it can never be. */
  readonly waitUs: number;
  /** Of several limits the one that decided. */
  readonly limitIndex: number;
}

/** An algorithm in Lua, with the numbers of a limiter. */
export interface Algorithm {
  /** The names by which the text knows a limit's numbers. An @ in them is the limit's number, from 1. */
  readonly names: readonly string[];
  /** The numbers of each limit, in the order of their names. */
  readonly limits: readonly (readonly number[])[];
  /** What an operation does. It finds `now`, `cost`, all numbers and, of a reservation, `most`, of a cancel, `turn`. */
  lua(operation: Operation): string;
  /**
   * What the answer to a 'take' (if it `takes`) or 'peek' says about a cost. The script was asked for
   * `asked`: as much, or 0 if the cost can never be had.
   */
  read(answer: unknown, cost: number, asked: number, takes: boolean): Reading;
}

/**
 * Reads the answers of a window: tokens left, microseconds until all is as new and, of a refusal,
 * until the cost would be there.
 */
export function windowReader(limit: number): Algorithm["read"] {
  return (answer, cost) => {
    const [left, fullUs, waitUs = 0] = answer as [left: number, fullUs: number, waitUs?: number];
    return { left, fullUs, waitUs: cost > limit ? Infinity : waitUs, limitIndex: 0 };
  };
}

export class Scripts {
  readonly algorithm: Algorithm;
  /** All numbers of all limits, as the arguments of a script. */
  readonly numbers: readonly string[];
  readonly #scripts = new Map<Operation, Script>();

  constructor(algorithm: Algorithm) {
    this.algorithm = algorithm;
    this.numbers = algorithm.limits.flat().map(String);
  }

  of(operation: Operation): Script {
    let made = this.#scripts.get(operation);
    if (!made) this.#scripts.set(operation, made = script(this.#source(operation)));
    return made;
  }

  /** The arguments of an operation; `last` for a reservation or a cancel. */
  arguments(operation: Operation, cost: number, last?: string): string[] {
    if (operation === "take") return cost === 1 ? [] : [String(cost)];
    return last === undefined ? [String(cost), ...this.numbers] : [String(cost), ...this.numbers, last];
  }

  #source(operation: Operation): string {
    const { names, limits } = this.algorithm;
    const isTake = operation === "take";
    const last = `ARGV[${2 + limits.length * names.length}]`;
    const head = limits.map((limit, i) => {
      const values = isTake ? limit : names.map((_, j) => `tonumber(ARGV[${2 + i * names.length + j}])`);
      return `local ${names.join(", ")} = ${values.join(", ")}\n`.replaceAll("@", String(i + 1));
    });
    return [
      LUA_NOW,
      isTake ? "local cost = 1\nif ARGV[1] then cost = tonumber(ARGV[1]) end\n" : "local cost = tonumber(ARGV[1])\n",
      ...head,
      operation === "reserve" ? `local most = tonumber(${last})\n` : "",
      operation === "cancel" ? `local turn = ${last}\n` : "",
      this.algorithm.lua(operation),
    ].join("");
  }
}
