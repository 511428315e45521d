declare module "fast-ratelimit" {
  export class FastRateLimit {
    /** `ttl` in seconds. */
    constructor(options: { threshold: number; ttl: number });
    __tokens: Map<string, number>;
    __options: { ttl_millisec: number };
    __scheduleExpireToken(namespace: string): void;
    consumeSync(namespace: string): boolean;
  }
}
