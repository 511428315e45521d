export type { AnyLimiter, AsyncDecision, AsyncLimiter } from "./async-limiter.js";
export { type ClientAddress, clientAddress, type ClientRule } from "./client-address.js";
export type { HeaderStyle } from "./fields.js";
export { type Answer, Guard, type GuardOptions, type OwnResponse } from "./guard.js";
export type { Ask, LimitOptions } from "./limit.js";
export type { ListOptions } from "./lists.js";
export type { ProblemType } from "./problem.js";
export { plainReader, type PlainRequest, type Reader } from "./reader.js";
