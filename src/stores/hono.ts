export { SluiceStore, type ClientRateLimitInfo } from './window-store.js'
export type { StoreOptions } from './hits.js'
