export type { StoreOptions } from "./counts.js";
export { type ClientRateLimitInfo, SluiceStore } from "./window-store.js";
