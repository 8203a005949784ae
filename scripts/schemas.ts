/** The versions of the brokers' registries, for the chart: a backup says which it was made with, and none newer is restored. */
import { SCHEMA_VERSION as database } from '../brokers/db/registry/migrations.ts';
import { SCHEMA_VERSION as objectStore } from '../brokers/objectstore/registry/migrations.ts';

/** Called by `scripts/generate.ts`. */
export function generated(): readonly { readonly path: string; readonly text: string }[] {
  const text = `${JSON.stringify({ database, objectStore })}\n`;
  return [{ path: 'charts/space/schemas.generated.json', text }];
}
