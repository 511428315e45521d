export { type ClientAddress, clientAddress, type ClientRule } from "./client/client-address.js";
export { plainReader, type PlainRequest, type Reader } from "./client/reader.js";
export type { Answer, OwnResponse } from "./guard/answer.js";
export type { AnyLimiter, AsyncDecision, AsyncLimiter } from "./guard/async-limiter.js";
export type { HeaderStyle } from "./guard/fields.js";
export { Guard, type GuardOptions } from "./guard/guard.js";
export type { Ask, LimitOptions } from "./guard/limit.js";
export type { ListOptions } from "./guard/lists.js";
export type { ProblemType } from "./guard/problem.js";
