declare module "@joint-ops/hitlimit/stores/memory" {
  interface MemoryStore {
    hit(key: string | number, windowMs: number, limit: number): { count: number };
    shutdown(): void;
  }
  export function memoryStore(): MemoryStore;
}
