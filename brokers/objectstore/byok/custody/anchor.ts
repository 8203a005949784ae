import { createHash } from 'node:crypto';
import { z } from 'zod';
import { type Inventory, NO_HEAD, type StoredInventory } from './inventory.ts';

/**
 * The record of an inventory in the Space's bucket, by which a registry that was set back is detected: the bucket fails
 * independently of the registry, and its records only move forward.
 */
export interface Anchor {
  readonly revision: number;
  readonly generation: number;
  readonly high: number;
  /** The head of the stored inventory, in lower-case hex. */
  readonly head: string;
}

const count = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
const schema = z.strictObject({
  v: z.literal(1),
  revision: count.min(1),
  generation: count,
  high: count,
  head: z.string().regex(/^[0-9a-f]{64}$/),
});

export function anchorOf({ revision, generation, high, head }: StoredInventory): Anchor {
  return { revision, generation, high, head };
}

export function writeAnchor({ revision, generation, high, head }: Anchor): Buffer {
  return Buffer.from(JSON.stringify({ v: 1, revision, generation, high, head }));
}

/** Undefined if the bytes are not a valid anchor. */
export function readAnchor(bytes: Uint8Array): Anchor | undefined {
  try {
    const { revision, generation, high, head } = schema.parse(
      JSON.parse(Buffer.from(bytes).toString('utf8')),
    );
    return { revision, generation, high, head };
  } catch {
    return undefined;
  }
}

/** The key of a Capsule's anchor; no tenant's prefix begins like this. */
export function anchorKey(space: string, capsule: string): string {
  const hash = createHash('sha256').update(`${space.length}:${space}:${capsule}`).digest('hex');
  return `custody/v1/${hash.slice(0, 40)}`;
}

/**
 * The relation between registry and anchor. `ahead` is the result of a crash between the two writes of a change: the
 * registry is exactly one revision ahead, and continues the anchored head.
 */
export type AnchorVerdict = 'agree' | 'ahead' | 'rollback';

export function compare(
  stored: (Pick<StoredInventory, 'head'> & Inventory) | undefined,
  anchor: Anchor | 'unreadable' | undefined,
): AnchorVerdict {
  if (anchor === 'unreadable') return 'rollback';
  if (stored === undefined) return anchor === undefined ? 'agree' : 'rollback';
  if (stored.revision === (anchor?.revision ?? 0) + 1)
    return stored.previous === (anchor?.head ?? NO_HEAD) ? 'ahead' : 'rollback';
  const same =
    anchor !== undefined &&
    stored.revision === anchor.revision &&
    stored.generation === anchor.generation &&
    stored.high === anchor.high &&
    stored.head === anchor.head;
  return same ? 'agree' : 'rollback';
}

type Numbers = Pick<Inventory, 'revision' | 'generation' | 'high'>;

/**
 * The numbers with which an administrator's decision continues: above all numbers of either side, and after the
 * anchored head.
 */
export function beyond(
  rows: Numbers | undefined,
  anchor: Anchor | 'unreadable' | undefined,
): Numbers & Pick<Inventory, 'previous'> {
  const known = anchor === 'unreadable' ? undefined : anchor;
  const next = (key: keyof Numbers) => Math.max(rows?.[key] ?? 0, known?.[key] ?? 0) + 1;
  return {
    revision: next('revision'),
    generation: next('generation'),
    high: next('high'),
    previous: known?.head ?? NO_HEAD,
  };
}
