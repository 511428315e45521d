// Runs scripts on a client, each call with a deadline of our own: whatever the client
// does about a server that is gone (it may queue commands for minutes, or send them
// again), a call ends within `deadlineMs`.
//
// Each call has its own timer. Node keeps timers of one duration in a list, so setting
// and clearing one takes 0.75 us, no more than a list of our own did.

import { SluiceError } from "../../engine/errors.js";
import type { Script } from "../scripts/script.js";
import { type RedisClient, scriptCalls } from "./client.js";

/**
 * Runs `script` in one round trip, in two if the server does not know it yet.
 * Every key that it touches is in `keys`, and all of them in one hash slot.
 *
 * Calls `onReply` or `onError`, once: with ERR_SLUICE_DEADLINE if no reply came in
 * time, else with the client's error. A reply that comes after that goes to `onLate`.
 */
export type Send = (
  script: Script,
  keys: string[],
  args: string[],
  onReply: (reply: unknown) => void,
  onError: (error: unknown) => void,
  onLate?: (reply: unknown) => void,
) => void;

/** A server that has restarted, or a replica that was promoted, may not know a script by its digest. */
function isUnknownScript(error: unknown): boolean {
  return error instanceof Error && /NOSCRIPT|NoScriptError/.test(error.message);
}

function numberOf(value: unknown): unknown {
  return typeof value === "bigint" || (typeof value === "string" && /^-?\d+$/.test(value)) ? Number(value) : value;
}

/** A reply whose integers are numbers: a client may be configured to return strings or bigints. */
function withNumbers(reply: unknown): unknown {
  if (!Array.isArray(reply)) return numberOf(reply);
  return typeof reply[0] === "number" ? reply : reply.map(numberOf);
}

/** How to run scripts on `client`. Throws TypeError for an unknown client. */
export function connection(client: RedisClient, deadlineMs: number): Send {
  const calls = scriptCalls(client);
  return (script, keys, args, onReply, onError, onLate) => {
    let isLate = false;
    let isOver = false;
    const giveUp = (): void => {
      if (isOver) return;
      isLate = true;
      onError(new SluiceError("ERR_SLUICE_DEADLINE", `timed out: Redis did not answer within ${deadlineMs} ms`));
    };
    // After a pause of this thread itself, replies may wait to be read: sockets come first.
    const timer = setTimeout(() => setImmediate(giveUp), deadlineMs);
    const end = (): void => {
      isOver = true;
      clearTimeout(timer);
    };
    const reply = (answer: unknown): void => {
      const value = withNumbers(answer);
      if (isLate) {
        onLate?.(value);
        return;
      }
      end();
      onReply(value);
    };
    const fail = (error: unknown): void => {
      if (isLate) return;
      end();
      onError(error);
    };
    const call = (answer: () => Promise<unknown>, onRejected: (error: unknown) => void): void => {
      // A client that is closed may throw.
      try {
        answer().then(reply, onRejected);
      } catch (error) {
        fail(error);
      }
    };
    call(
      () => calls.bySha(script.sha, keys, args),
      (error) => {
        // A call that was given up has taken nothing, so its source need not be sent.
        if (isUnknownScript(error) && !isLate) call(() => calls.bySource(script.source, keys, args), fail);
        else fail(error);
      },
    );
  };
}
