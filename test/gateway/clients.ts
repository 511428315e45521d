/** Clients of the tenant "acme" that send requests without pause, by autocannon. */
import autocannon from "autocannon";
import { once } from "node:events";
import { KEY } from "./gateway.js";

export function startClients(port: number, connections: number) {
  const statuses: Record<number, number> = {};
  /** The connections that got a refusal. */
  const refused = new Set<unknown>();
  const run = autocannon({
    url: `http://127.0.0.1:${port}`,
    connections,
    duration: 3600,
    sampleInt: 50,
    headers: { "x-api-key": KEY },
  });
  run.on("response", (client, status) => {
    statuses[status] = (statuses[status] ?? 0) + 1;
    if (status === 429) refused.add(client);
  });
  const until = async (isSo: () => boolean): Promise<void> => {
    while (!isSo()) await once(run, "response");
  };
  return {
    /** Answers by status. */
    statuses,
    until,
    /** Resolves when every connection was refused: nothing is left, and everything that was admitted has arrived. */
    untilRefused(): Promise<void> {
      refused.clear();
      return until(() => refused.size === connections);
    },
    async stop(): Promise<{ errors: number }> {
      run.stop();
      return run;
    },
  };
}
