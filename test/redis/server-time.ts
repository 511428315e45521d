// A real server whose clock is moved by hand: the scripts as they are, except for the
// line that reads the time, which comes as an argument. The time is years ahead of the
// server's own, so nothing expires there by itself; to a script, a word that is past
// its time must be as good as none.

import { Redis } from "ioredis";
import type { IoredisClient } from "sluice/redis";

const START_US = Date.UTC(2080, 0, 1) * 1000;

export class TimedClient implements IoredisClient {
  /** Microseconds since 1970. */
  nowUs: number;
  readonly redis: Redis;

  /** Begins `sinceUs` after a moment that is a multiple of every window. */
  constructor(port: number, sinceUs = 0) {
    this.redis = new Redis({ host: "127.0.0.1", port });
    this.nowUs = START_US + sinceUs;
  }

  evalsha(): Promise<unknown> {
    return Promise.reject(new Error("NOSCRIPT this client sends the source"));
  }

  eval(source: string, keyCount: number, ...keysAndArguments: string[]): Promise<unknown> {
    const timed = source.replace("redis.call('TIME')", "{ table.remove(ARGV, #ARGV - 1), table.remove(ARGV) }");
    const isTimeless = source.startsWith("return");
    if (timed === source && !isTimeless) throw new Error("a script that does not read the time");
    return this.redis.eval(
      timed,
      keyCount,
      ...keysAndArguments,
      ...(isTimeless ? [] : [String(Math.floor(this.nowUs / 1e6)), String(this.nowUs % 1e6)]),
    );
  }

  close(): void {
    this.redis.disconnect();
  }
}
