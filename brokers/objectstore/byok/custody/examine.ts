import { type Anchor, compare, type Standing } from './anchor.ts';
import type { StoredInventory } from './inventory.ts';
import { parseInventory } from './rows.ts';
import type { Seals } from './seals.ts';

/** What the rows of a Capsule turn out to be; `problem` says in our words why they are not believed. */
export type Examined =
  | { readonly stored: StoredInventory | undefined; readonly problem?: never }
  | { readonly problem: string };

/** Believes rows that this Space sealed for this Capsule, and nothing else. Decrypts nothing. */
export function examine(seals: Seals, capsule: string, raw: unknown): Examined {
  if (raw === undefined) return { stored: undefined };
  const stored = parseInventory(raw);
  if (stored === undefined) return { problem: 'rows' };
  if (stored.capsule !== capsule) return { problem: 'another Capsule' };
  const problem = seals.problemOf(stored);
  return problem === undefined ? { stored } : { problem };
}

/** Everything that is asked of rows and anchor before a set of theirs is used. */
export function judge(
  seals: Seals,
  capsule: string,
  raw: unknown,
  anchor: Anchor | 'unreadable' | undefined,
): 'damaged' | Standing {
  const examined = examine(seals, capsule, raw);
  return examined.problem === undefined ? compare(examined.stored, anchor) : 'damaged';
}
