// A reservation that Redis granted, or that was made without it.

export interface RedisReservation {
  /** False if the cost exceeds the burst, or the delay would exceed `maxWaitMs`; nothing was charged then. */
  readonly granted: boolean;
  /**
   * ms to wait before acting, from the server's answer on: 0 is now. If not granted, ms that it would
   * have taken; Infinity is never.
   */
  readonly delayMs: number;
  /** Redis could not be asked: see `onFailure`. */
  readonly degraded: boolean;
  /**
   * Gives back the tokens that nothing is reserved behind, if this reservation's
   * moment to act is not past on the server's clock. Only the first call has an
   * effect. Resolves to true if tokens went back; to false also if Redis cannot be asked.
   */
  cancel(): Promise<boolean>;
  /** Cancels if the moment to act is still to come; a reservation that could act at once stays charged. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** @internal A reservation that `giveBack` cancels. */
export function reservation(
  granted: boolean,
  delayMs: number,
  degraded: boolean,
  giveBack: () => boolean | Promise<boolean>,
): RedisReservation {
  let isOpen = granted;
  const cancel = async (): Promise<boolean> => {
    if (!isOpen) return false;
    isOpen = false;
    return giveBack();
  };
  return {
    granted,
    delayMs,
    degraded,
    cancel,
    async [Symbol.asyncDispose]() {
      if (delayMs > 0) await cancel();
    },
  };
}
