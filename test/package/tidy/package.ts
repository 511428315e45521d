// package.json, as far as the house rules read it.

import { readFileSync } from "node:fs";
import { root } from "./tree.js";

export interface Package {
  type?: string;
  engines?: Record<string, string>;
  dependencies?: Record<string, string>;
  peerDependencies?: Record<string, string>;
  peerDependenciesMeta?: Record<string, { optional?: boolean }>;
  devDependencies?: Record<string, string>;
  exports?: Record<string, string | Record<string, string>>;
}

export const own: Package = JSON.parse(readFileSync(`${root}/package.json`, "utf8"));
