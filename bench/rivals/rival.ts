// What a rival is: a rate limiter of someone else's, at its best settings.

/** Any key the questions ask for. */
export type Key = string | number;

/** Makes one decision: true if the call is admitted. */
export type Ask<K = Key> = (key: K) => boolean | Promise<boolean>;

/** A token bucket's policy. `rate` is tokens a second. */
export interface Policy {
  rate: number;
  burst: number;
}

export interface RivalOptions extends Policy {
  /** Keys to make room for, where the rival needs a number. */
  capacity: number;
}

export interface MadeRival {
  ask: Ask;
  close(): void | Promise<void>;
}

/** What a rival cannot take more of in a reasonable time. Above it, a measurement would take minutes. */
export interface Limits {
  keys?: number;
  /** Calls in all. */
  calls?: number;
  /** Admitted calls for one key. */
  callsAKey?: number;
}

/** A rival called in our own process: one limiter over many keys. A refusal is the answer false and throws nothing. */
export interface Rival {
  name: string;
  /** Its npm package. Left out if the code is our own. */
  package?: string;
  /** What is measured of it. */
  what: string;
  answers: "sync" | "promise";
  /** false if a decision reads no clock, which is most of a hot decision's cost. */
  readsClock: boolean;
  limits?: Limits;
  make(options: RivalOptions): MadeRival;
}

/** The client library under a rival over Redis. */
export type ClientLibrary = "ioredis" | "node-redis";

/** What the rounds of a program in another language found, by case and number of threads. */
export interface OutsideRounds {
  case: string;
  threads?: number;
  unit: "ns" | "/ms";
  values: number[];
}

export interface OutsideOptions {
  rounds: number;
  decisions?: number;
  keys?: number;
  /** Numbers of the addresses to ask for, in order. */
  order?: Uint32Array;
  threads?: number[];
  /** Length of a round of threads. */
  ms?: number;
  /** How long a compiler may work before the first round. */
  warmUpMs?: number;
}

/** A question that a program in another language can answer. */
export type OutsideQuestion = "hot" | "keys" | "threads";

/** A rival in another language: a program that we build, start and read. */
export interface OutsideRival {
  name: string;
  what: string;
  /** Why it cannot be measured here; undefined if it can. */
  absent(): string | undefined;
  version(): string;
  /**
   * All rounds of a question. 'hot' uses rounds and decisions; 'keys' uses keys and
   * order too; 'threads' uses threads, order and ms.
   */
  measure(question: OutsideQuestion, options: OutsideOptions): Promise<OutsideRounds[]>;
}
