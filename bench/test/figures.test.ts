// The figures in the documents are those of the run that is committed.

import { expect, it } from "vitest";
import { documents } from "../report/documents.js";

it.each(documents())(
  "$path has the figures of bench/figures.json; if not, run npm run bench -- --figures bench/figures.json",
  ({ text, expected }) => {
    expect(text).toBe(expected);
  },
);
