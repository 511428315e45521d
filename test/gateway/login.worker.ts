// What the workers of login.test.ts do: clients that log in, all at once.

import { setImmediate } from "node:timers/promises";
import type { Sluice } from "sluice";
import { isStopped, type Member, work } from "../threads/crew-member.js";

interface Logins extends Member {
  clients: number;
  /** Tries of each client, at least. */
  tries: number;
  accounts: number;
}

/** Logins that reached the password check, by account. */
export type Through = Record<string, { right: number; wrong: number }>;

const jobs = {
  /**
   * `clients` that try to log in, `tries` times each and on until the crew stops.
   * The first owns an account that no other client tries. The second shares one
   * with those of the other threads, and is quick. The others guess at a few
   * accounts, and know the password now and then.
   */
  logins: (sluice: Sluice, { index, clients, tries, accounts }: Logins) => {
    const perAccount = sluice.limiter("account");
    const perAddress = sluice.limiter("address");
    const through: Through = {};

    /** Begins a login. Returns what ends it once the password was checked, or undefined if it is refused. */
    function begin(account: string, address: string): ((isRight: boolean) => void) | undefined {
      if (!sluice.all([[perAccount, account], [perAddress, address]]).allowed) return undefined;
      return (isRight) => end(account, address, isRight);
    }

    function end(account: string, address: string, isRight: boolean): void {
      const counts = (through[account] ??= { right: 0, wrong: 0 });
      counts[isRight ? "right" : "wrong"]++;
      if (!isRight) return;
      perAccount.refund(account);
      perAddress.refund(address);
    }

    async function login(account: string, address: string, isRight: boolean): Promise<void> {
      const end = begin(account, address);
      if (!end) return;
      // The password is being checked.
      await setImmediate();
      end(isRight);
    }

    return async (): Promise<Through> => {
      await Promise.all(Array.from({ length: clients }, async (_, client) => {
        for (let i = 0; i < tries || !isStopped(); i++) {
          if (client === 0) await login(`owner ${index}`, `home ${index}`, true);
          else if (client === 1) { for (let n = 0; n < 200; n++) begin("shared", "office")?.(true); }
          else await login(`account ${(client + i) % accounts}`, `address ${client % 20}`, i % 4 === 0);
          await setImmediate();
        }
      }));
      return through;
    };
  },
};

export type LoginJobs = typeof jobs;
await work(jobs);
