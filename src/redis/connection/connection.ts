// Runs scripts on a client that was handed in, each call with a deadline of our
// own: whatever the client does about a server that is gone (it may queue
// commands for minutes, or send them again), a call settles within `deadlineMs`.

import { SluiceError } from "../../engine/errors.js";
import type { Script } from "../scripts/script.js";
import { type RedisClient, scriptCalls } from "./client.js";
import { Deadlines } from "./deadlines.js";

export interface Connection {
  /**
   * Runs `script` in one round trip, in two when the server does not know it yet.
   * Every key that it touches is in `keys`, and all of them in one hash slot.
   * Rejects with ERR_SLUICE_DEADLINE when no reply came in time; should one come
   * after that, `onLate` is called with it. Else rejects with the client's error.
   */
  run(script: Script, keys: string[], args: string[], onLate?: (reply: unknown) => void): Promise<unknown>;
  /** The same without a promise: `onReply` or `onError` is called, once, and never `onReply` after the deadline. */
  send(
    script: Script,
    keys: string[],
    args: string[],
    onReply: (reply: unknown) => void,
    onError: (error: unknown) => void,
    onLate?: (reply: unknown) => void,
  ): void;
}

/** A server that has restarted, or a replica that was promoted, may not know a script by its digest. */
function isUnknownScript(error: unknown): boolean {
  return error instanceof Error && /NOSCRIPT|NoScriptError/.test(error.message);
}

function numberOf(value: unknown): unknown {
  return typeof value === "bigint" || (typeof value === "string" && /^-?\d+$/.test(value)) ? Number(value) : value;
}

/** A reply whose integers are numbers: clients may be told to answer strings or bigints. */
function withNumbers(reply: unknown): unknown {
  if (!Array.isArray(reply)) return numberOf(reply);
  return typeof reply[0] === "number" ? reply : reply.map(numberOf);
}

export function connection(client: RedisClient, deadlineMs: number): Connection {
  const calls = scriptCalls(client);
  const deadlines = new Deadlines(deadlineMs);
  const send: Connection["send"] = (script, keys, args, onReply, onError, onLate) => {
    let isLate = false;
    const pending = deadlines.begin(() => {
      isLate = true;
      onError(new SluiceError("ERR_SLUICE_DEADLINE", `Redis did not answer within "deadlineMs", ${deadlineMs}`));
    });
    const reply = (answer: unknown): void => {
      const value = withNumbers(answer);
      if (isLate) {
        onLate?.(value);
        return;
      }
      deadlines.end(pending);
      onReply(value);
    };
    const fail = (error: unknown): void => {
      if (isLate) return;
      deadlines.end(pending);
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
        // Given up, it has taken nothing yet, and need not.
        if (isUnknownScript(error) && !isLate) call(() => calls.bySource(script.source, keys, args), fail);
        else fail(error);
      },
    );
  };
  return {
    send,
    run: (script, keys, args, onLate) =>
      new Promise((resolve, reject) => send(script, keys, args, resolve, reject, onLate)),
  };
}
