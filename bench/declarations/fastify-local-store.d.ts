declare module "@fastify/rate-limit/store/LocalStore.js" {
  type Callback = (error: Error | null, answer: { current: number; ttl: number }) => void;
  export default class LocalStore {
    constructor(continueExceeding: boolean, exponentialBackoff: boolean, cache: number);
    lru: { clear(): void };
    incr(key: string | number, callback: Callback, timeWindow: number, max: number): void;
  }
}
