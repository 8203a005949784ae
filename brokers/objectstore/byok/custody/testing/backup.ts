import { randomBytes } from 'node:crypto';
import type { Fixture } from '../../../testing/fixture.ts';

const TABLES = ['credential_inventory', 'credential_set', 'credential_tombstone', 'credential_request'];

/** Saves the custody's tables; returns a function that restores them. */
export async function backUp({ registry }: Pick<Fixture, 'registry'>): Promise<() => Promise<void>> {
  const name = `kept_${randomBytes(4).toString('hex')}`;
  await registry(`CREATE SCHEMA ${name}`);
  for (const table of TABLES) await registry(`CREATE TABLE ${name}.${table} AS TABLE broker.${table}`);
  return async () => {
    for (const table of TABLES.toReversed()) await registry(`DELETE FROM broker.${table}`);
    for (const table of TABLES) await registry(`INSERT INTO broker.${table} SELECT * FROM ${name}.${table}`);
  };
}
