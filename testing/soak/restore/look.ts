/** Checks the backup as a restore of a whole Space does before any change, and whether damaged backups are refused. */
import { globSync, truncateSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { requireDatabase } from '../../../e2e/restore/preflight/log.ts';
import type { Buckets } from './buckets.ts';
import { type BackedUpServer, VAULT_BUCKET, VAULT_PREFIX } from './server.ts';

export async function checkBackup({ places }: BackedUpServer, buckets: Buckets, at: string): Promise<void> {
  await Promise.all([requireDatabase(places.scratch, at), buckets.backup('check', '--at', at)]);
}

const DAY_MS = 86_400_000;

/** The names of damages that were not refused. */
export async function acceptedDamage(
  server: BackedUpServer,
  buckets: Buckets,
  moment: Date,
): Promise<readonly string[]> {
  const at = moment.toISOString();
  const accepts = (when: string) =>
    requireDatabase(server.places.scratch, when).then(
      () => true,
      () => false,
    );
  const accepted: string[] = [];
  const backup = join(buckets.vault.directory, VAULT_BUCKET, VAULT_PREFIX, 'postgres');
  for (const [what, pattern] of [
    ['a truncated copy', 'backup/space/*F/bundle/1'],
    ['a truncated manifest of a copy', 'backup/space/*F/backup.manifest*'],
    ['a truncated list of copies', 'backup/space/backup.info*'],
    ['a truncated log', 'archive/space/*/*/*.zst'],
  ] as const) {
    const files = globSync(join(backup, pattern));
    const saved = await Promise.all(files.map((file) => readFile(file)));
    for (const file of files) truncateSync(file, 100);
    if (files.length === 0 || (await accepts(at))) accepted.push(what);
    await Promise.all(files.map((file, index) => writeFile(file, saved[index] ?? '')));
  }
  if (await accepts(new Date(moment.getTime() + DAY_MS).toISOString()))
    accepted.push('a moment after the end of the log');
  if (await accepts(new Date(moment.getTime() - DAY_MS).toISOString()))
    accepted.push('a moment before the first copy');
  return accepted;
}
