// The contract of a limiter, run against the models: what judges the kernel keeps the same promises.

import { describe } from "vitest";
import { commonKinds, decides, type Place } from "../contract.js";
import { naiveLimiters } from "./naive-limiter.js";

function inModels(): Place {
  let nowNs = 1_000_000_000n;
  return {
    makers: naiveLimiters(() => nowNs),
    stepMs: 1e-6,
    pass: (ms) => void (nowNs += BigInt(Math.round(ms * 1e6))),
    close: () => {},
  };
}

describe("a model", () => decides(inModels, commonKinds));
