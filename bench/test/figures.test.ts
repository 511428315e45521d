// The figures in the documents are those of the run that is committed.

import { expect, it } from "vitest";

const { documents }: { documents(): { path: string; text: string; expected: string }[] } = await import(
  new URL("../report/readme.js", import.meta.url).href
);

it.each(documents())(
  "$path has the figures of bench/figures.json; if not, run node bench/report/readme.js",
  ({ text, expected }) => {
    expect(text).toBe(expected);
  },
);
