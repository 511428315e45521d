// The policies of a table as this thread knows them: by name, those that other
// threads defined too.

import { closed } from "../errors.js";
import type { Definition } from "../policy/algorithms.js";
import { checkName, definePolicy } from "../policy/define.js";
import type { PolicyKind } from "../policy/kinds.js";
import { Policy } from "../policy/policy.js";
import type { Table } from "../table/table.js";

export class Policies {
  readonly #table: Table;
  readonly #byName = new Map<string, Policy>();
  isClosed = false;

  constructor(table: Table) {
    this.#table = table;
  }

  /** The table; throws ERR_SLUICE_CLOSED if this thread has closed it. */
  get table(): Table {
    this.checkOpen();
    return this.#table;
  }

  /** Throws ERR_SLUICE_CLOSED if this thread has closed the table. */
  checkOpen(): void {
    if (this.isClosed) throw closed();
  }

  /** The policy of that name; undefined if no thread has defined it yet. */
  find(name: string): Policy | undefined {
    this.#catchUp();
    return this.#byName.get(name);
  }

  /** All policies, in the order in which they were defined. */
  all(): Iterable<Policy> {
    this.#catchUp();
    return this.#byName.values();
  }

  /** Takes over what other threads have defined since. */
  #catchUp(): void {
    const { table } = this;
    for (let number = this.#byName.size + 1; number <= table.header.policyCount; number++) {
      const policy = new Policy(table, number);
      this.#byName.set(policy.name, policy);
    }
  }

  /** Defines a policy, and its tiers as policies of their own; finds them if they are there already. */
  define(name: string, { tiers, ...definition }: Definition<PolicyKind>): Policy {
    for (const each of [name, ...tiers.map(([tier]) => tierName(name, tier))]) checkName(this.table, each);
    const policy = this.#defineOne(name, definition);
    for (const [tier, own] of tiers) this.#defineOne(tierName(name, tier), own);
    return policy;
  }

  #defineOne(name: string, { kind, numbers, limits = [], ...traits }: Omit<Definition<PolicyKind>, "tiers">): Policy {
    const { table } = this;
    const find = (each: string): Policy | undefined => this.find(each);
    const joined = limits.map((limit, i) => definePolicy(table, `${name}#${i}`, "limit", limit, {}, find));
    return definePolicy(table, name, kind, numbers, { ...traits, joined }, find);
  }
}

/** The name of the policy behind a tier. */
export function tierName(name: string, tier: string): string {
  return `${name}/${tier}`;
}
