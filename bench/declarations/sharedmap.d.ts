declare module "sharedmap" {
  interface Options {
    lockExclusive?: boolean;
  }
  export default class SharedMap {
    constructor(maxSize: number, keySize: number, objSize: number);
    lockExclusive(): void;
    unlockExclusive(): void;
    get(key: string, options?: Options): string | undefined;
    set(key: string, value: string | number, options?: Options): void;
  }
}
