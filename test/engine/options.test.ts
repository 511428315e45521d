import { describe, expect, it } from "vitest";
import { checkOptions } from "../../src/engine/options.js";

describe("an options object", () => {
  const known = ["rate", "burst", "maxWaiters"];

  it("may have every known option, or none", () => {
    expect(() => checkOptions({}, known)).not.toThrow();
    expect(() => checkOptions({ rate: 1, burst: undefined }, known)).not.toThrow();
  });

  it("names the nearest known option for an unknown one", () => {
    expect(() => checkOptions({ rates: 1 }, known)).toThrow(
      new TypeError("\"options\" has no option \"rates\"; did you mean \"rate\"?"),
    );
    expect(() => checkOptions({ maxwaiters: 1 }, known, "limits[1]")).toThrow(
      new TypeError("\"limits[1]\" has no option \"maxwaiters\"; did you mean \"maxWaiters\"?"),
    );
    expect(() => checkOptions({ keyGenerator: 1 }, known)).toThrow(
      new TypeError("\"options\" has no option \"keyGenerator\"; known are rate, burst, maxWaiters"),
    );
    expect(() => checkOptions({ keyGenerator: 1 }, ["limiter", "key", "cost"])).toThrow(
      new TypeError("\"options\" has no option \"keyGenerator\"; did you mean \"key\"?"),
    );
    expect(() => checkOptions({ a: 1 }, [])).toThrow(new TypeError("\"options\" has no option \"a\"; none is known"));
  });

  it("is an object", () => {
    for (const [value, got] of [[null, "null"], [undefined, "undefined"], [1, "1"], ["x", "\"x\""], [[], "an array"]]) {
      expect(() => checkOptions(value, known)).toThrow(new TypeError(`"options" expected an object, got ${got}`));
    }
  });

  it("is not fooled by names that every object has", () => {
    expect(() => checkOptions({ toString: 1 }, known)).toThrow(TypeError);
    expect(() => checkOptions(JSON.parse("{\"__proto__\": 1}"), known)).toThrow(TypeError);
  });

  it("finds the name also among very long ones", () => {
    expect(() => checkOptions({ ["x".repeat(1e6)]: 1 }, known)).toThrow(TypeError);
  });
});
