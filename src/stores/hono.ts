export type { StoreOptions } from "./hits.js";
export { type ClientRateLimitInfo, SluiceStore } from "./window-store.js";
