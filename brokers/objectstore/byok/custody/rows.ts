import type { Session } from '@space/broker-kit/postgres';
import { z } from 'zod';
import { bySetId, type SealedSet, type StoredInventory } from './inventory.ts';

/** All statements about a Capsule's rows in custody. What they return is trusted only after `Seals` has checked it. */

const whole = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);

/** The required form of a row; a damaged row makes the inventory invalid. */
const storedSet = z.strictObject({
  set_id: z.string(),
  name: z.string(),
  form_version: whole,
  generation: whole,
  endpoint: z.string(),
  region: z.string(),
  bucket: z.string(),
  addressing: z.enum(['path', 'virtual-host']),
  fingerprint: z.string(),
  verified_at: whole,
  created_at: whole,
  rotated_at: whole.nullable(),
  kid: z.string(),
  envelope: z.string(),
});

const storedInventory = z.strictObject({
  capsule_id: z.string(),
  life: whole,
  generation: whole,
  revision: whole,
  selected: z.string().nullable(),
  high: whole,
  previous: z.string(),
  head_kid: z.string(),
  head: z.string(),
  sets: z.array(storedSet),
});

export type RawInventory = z.infer<typeof storedInventory>;

/** Reads all rows in one statement, so that they have one snapshot. The result is not checked; see `parseInventory`. */
export async function readInventory(session: Session, capsule: string): Promise<unknown> {
  const [row] = await session.run<{ inventory: unknown }>(
    'read credential inventory',
    `SELECT to_jsonb(i) || jsonb_build_object('sets', coalesce((
       SELECT jsonb_agg(to_jsonb(s) - 'capsule_id') FROM broker.credential_set s WHERE s.capsule_id = i.capsule_id
     ), '[]')) AS inventory
     FROM broker.credential_inventory i WHERE i.capsule_id = $1`,
    [capsule],
  );
  return row?.inventory;
}

/** Undefined if this broker cannot have written the rows. */
export function parseInventory(raw: unknown): StoredInventory | undefined {
  const { data } = storedInventory.safeParse(raw);
  if (data === undefined) return undefined;
  const { life: incarnation, generation, revision, selected, high, previous, head } = data;
  const sets = bySetId(data.sets.map(parseSet));
  return {
    capsule: data.capsule_id,
    incarnation,
    generation,
    revision,
    selected,
    high,
    previous,
    head,
    headKid: data.head_kid,
    sets,
  };
}

function parseSet(row: RawInventory['sets'][number]): SealedSet {
  const { name, generation, endpoint, region, bucket, addressing, fingerprint } = row;
  return {
    setId: row.set_id,
    formVersion: row.form_version,
    verifiedAt: row.verified_at,
    createdAt: row.created_at,
    rotatedAt: row.rotated_at,
    envelope: { kid: row.kid, jwe: row.envelope },
    ...{ name, generation, endpoint, region, bucket, addressing, fingerprint },
  };
}

/**
 * Compare-and-swap of a whole inventory from one revision to the next in the caller's transaction. Returns false, and
 * writes nothing, if another transaction was faster.
 */
export async function writeInventory(
  session: Session,
  from: { readonly revision: number; readonly sets: readonly SealedSet[] },
  to: StoredInventory,
): Promise<boolean> {
  const values = [
    to.capsule,
    to.incarnation,
    to.generation,
    to.revision,
    to.selected,
    to.high,
    to.previous,
    to.headKid,
    to.head,
  ];
  const rows =
    from.revision === 0
      ? await session.run(
          'insert credential inventory',
          `INSERT INTO broker.credential_inventory
             (capsule_id, life, generation, revision, selected, high, previous, head_kid, head)
           VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (capsule_id) DO NOTHING RETURNING 1`,
          values,
        )
      : await session.run(
          'advance credential inventory',
          `UPDATE broker.credential_inventory SET life = $2, generation = $3, revision = $4, selected = $5, high = $6,
             previous = $7, head_kid = $8, head = $9
           WHERE capsule_id = $1 AND revision = $10 RETURNING 1`,
          [...values, from.revision],
        );
  if (rows.length !== 1) return false;
  for (const set of from.sets) {
    if (!to.sets.some(({ setId }) => setId === set.setId)) await retireSet(session, to.capsule, set);
  }
  for (const set of to.sets) {
    const before = from.sets.find(({ setId }) => setId === set.setId);
    if (before?.envelope.jwe !== set.envelope.jwe) await writeSet(session, to.capsule, set);
  }
  return true;
}

async function writeSet(session: Session, capsule: string, set: SealedSet): Promise<void> {
  await session.run(
    'write credential set',
    `INSERT INTO broker.credential_set (set_id, capsule_id, name, form_version, generation, endpoint, region, bucket,
       addressing, fingerprint, verified_at, created_at, rotated_at, kid, envelope)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
     ON CONFLICT (set_id) DO UPDATE SET name = $3, form_version = $4, generation = $5, endpoint = $6, region = $7,
       bucket = $8, addressing = $9, fingerprint = $10, verified_at = $11, created_at = $12, rotated_at = $13,
       kid = $14, envelope = $15`,
    [
      set.setId,
      capsule,
      set.name,
      set.formVersion,
      set.generation,
      set.endpoint,
      set.region,
      set.bucket,
      set.addressing,
      set.fingerprint,
      set.verifiedAt,
      set.createdAt,
      set.rotatedAt,
      set.envelope.kid,
      set.envelope.jwe,
    ],
  );
}

async function retireSet(session: Session, capsule: string, set: SealedSet): Promise<void> {
  await session.run('delete credential set', 'DELETE FROM broker.credential_set WHERE set_id = $1', [
    set.setId,
  ]);
  await session.run(
    'leave credential tombstone',
    `INSERT INTO broker.credential_tombstone (set_id, capsule_id, generation) VALUES ($1, $2, $3)
     ON CONFLICT (set_id) DO NOTHING`,
    [set.setId, capsule, set.generation],
  );
}

/** Deletes the rows of a Capsule, trusted or not, and leaves tombstones. */
export async function forgetInventory(session: Session, capsule: string): Promise<void> {
  await session.run(
    'leave credential tombstones',
    `INSERT INTO broker.credential_tombstone (set_id, capsule_id, generation)
     SELECT set_id, capsule_id, generation FROM broker.credential_set WHERE capsule_id = $1
     ON CONFLICT (set_id) DO NOTHING`,
    [capsule],
  );
  await session.run('forget credential sets', 'DELETE FROM broker.credential_set WHERE capsule_id = $1', [
    capsule,
  ]);
  await session.run(
    'forget credential inventory',
    'DELETE FROM broker.credential_inventory WHERE capsule_id = $1',
    [capsule],
  );
}

/** The present incarnation of the Capsule, from the registry of Capsules. */
export async function readIncarnation(session: Session, capsule: string): Promise<number> {
  const [row] = await session.run<{ incarnation: number }>(
    'read incarnation',
    'SELECT life AS incarnation FROM broker.capsule WHERE capsule_id = $1',
    [capsule],
  );
  return row?.incarnation ?? 1;
}

/** The numbers in the rows, trusted or not; an impossible number counts as 0. */
export async function readNumbers(session: Session, capsule: string) {
  const [row] = await session.run<Record<'generation' | 'revision' | 'high', string>>(
    'read credential numbers',
    'SELECT generation, revision, high FROM broker.credential_inventory WHERE capsule_id = $1',
    [capsule],
  );
  if (row === undefined) return undefined;
  const numberOf = (text: string) => (Number(text) < Number.MAX_SAFE_INTEGER / 2 ? Number(text) : 0);
  return {
    generation: numberOf(row.generation),
    revision: numberOf(row.revision),
    high: numberOf(row.high),
  };
}

/** The generation at which a set of the Capsule was deleted. */
export async function readTombstone(
  session: Session,
  capsule: string,
  setId: string,
): Promise<number | undefined> {
  const [row] = await session.run<{ generation: string }>(
    'read credential tombstone',
    'SELECT generation FROM broker.credential_tombstone WHERE set_id = $1 AND capsule_id = $2',
    [setId, capsule],
  );
  return row && Number(row.generation);
}
