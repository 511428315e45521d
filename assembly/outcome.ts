// What an algorithm found out, for whoever asked: kept in globals until it is
// known whether the state could be put back.

export let outTokens: f64 = 0;
export let outRetryNs: f64 = 0;
export let outResetNs: f64 = 0;
export let outDelayNs: f64 = 0;
export let outAct: u64 = 0;

export function setOutcome(tokens: f64, retryNs: f64, resetNs: f64, delayNs: f64, act: u64): void {
  outTokens = tokens;
  outRetryNs = retryNs;
  outResetNs = resetNs;
  outDelayNs = delayNs;
  outAct = act;
}
