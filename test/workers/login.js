// What the workers of test/login.test.ts do: clients that log in, all at once.

import { setImmediate } from "node:timers/promises";
import { isStopped, work } from "./crew.js";

await work({
  /**
   * `clients` that try, until they are stopped and each has so many times. The first
   * owns an account that nobody else tries; the second shares one with those of
   * the other threads, and is quick; the others guess at a few accounts, and know
   * the password now and then. What was let through, by account: how often it was
   * right and wrong.
   */
  logins: (sluice, { index, clients, tries, accounts }) => {
    const perAccount = sluice.limiter("account");
    const perAddress = sluice.limiter("address");
    const through = {};

    /** Begins a login: what ends it once the password was looked at, or nothing if it is refused. */
    function begin(account, address) {
      if (!sluice.all([[perAccount, account], [perAddress, address]]).allowed) return undefined;
      return (isRight) => end(account, address, isRight);
    }

    function end(account, address, isRight) {
      const counts = (through[account] ??= { right: 0, wrong: 0 });
      counts[isRight ? "right" : "wrong"]++;
      if (!isRight) return;
      perAccount.refund(account);
      perAddress.refund(address);
    }

    async function login(account, address, isRight) {
      const end = begin(account, address);
      if (!end) return;
      // The password is being checked.
      await setImmediate();
      end(isRight);
    }

    return async () => {
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
});
