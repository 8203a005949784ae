/** The copy that the scratch server of a restore begins with, and the databases that are left out of it. */
import { setTimeout as wait } from 'node:timers/promises';
import { asServerTime, copiesIn, copyFor, wayTo } from '../copies.ts';
import { outputOf, type Place } from '../place.ts';
import { RestoreProblem } from '../problem.ts';
import type { Places } from './model.ts';
import { othersDatabases, querySuperuser } from './queries.ts';

const SCRATCH = ['/bin/sh', '/usr/share/space/scratch.sh'];
const PROGRESS_MS = 100;
/**
 * An attempt to archive a segment takes up to a minute if the bucket does not answer, and after three failed ones the
 * server waits for another minute. So one short fault of the network is no reason to give up.
 */
const ARCHIVED_WITHIN_MS = 300_000;

/**
 * Makes the server archive what it has written, so that the log reaches every past moment. A transaction of its own
 * ends the log, since a server that recovers knows only by a later transaction that it has reached a moment. Returns the file
 * of the log that it is in.
 */
export async function archiveNow(server: Place, signal: AbortSignal): Promise<string> {
  await querySuperuser(server, 'postgres', 'SELECT pg_current_xact_id();');
  const wal = await querySuperuser(server, 'postgres', 'SELECT pg_walfile_name(pg_switch_wal());');
  // A server that recovers forgets its statistics; a file of its log it marks as archived before it removes it, and not otherwise.
  const archived = `SELECT coalesce(last_archived_wal >= :'wal', false)
    OR EXISTS (SELECT FROM pg_ls_archive_statusdir() WHERE name = :'wal' || '.done')
    OR NOT EXISTS (SELECT FROM pg_ls_waldir() WHERE name = :'wal') FROM pg_stat_archiver`;
  const deadline = performance.now() + ARCHIVED_WITHIN_MS;
  while ((await querySuperuser(server, 'postgres', archived, { wal })) !== 't') {
    if (performance.now() > deadline)
      throw new RestoreProblem(
        'the Space’s server cannot archive its log, so no backup of it reaches the present. The log of container postgres in pod postgres-0 shows the reason. Nothing was changed',
      );
    await wait(PROGRESS_MS, undefined, { signal });
  }
  return wal;
}

/**
 * Finds the copy to begin with, and the databases in it that belong to others. @throws RestoreProblem if there is
 * none
 */
export async function findCopy(
  { server, scratch }: Pick<Places, 'server' | 'scratch'>,
  at: string | undefined,
  capsule: string,
): Promise<readonly string[]> {
  const [others, { all }] = await Promise.all([othersDatabases(server, capsule), copiesIn(scratch)]);
  copyFor(all, at); // refuses a moment before the first copy
  const { label, target } = await wayTo(scratch, at);
  const [copy] = (await copiesIn(scratch, label)).all;
  const left = new Set(others);
  const without = (copy?.['database-ref'] ?? [])
    .filter(({ oid }) => left.has(String(oid)))
    .map(({ oid }) => `--db-exclude=${oid}`);
  return [`--set=${label}`, `--target-timeline=${target}`, ...without];
}

/**
 * Starts a server in the pod with the data of the Space's at that moment, except what is left out. Returns the moment
 * that it reached.
 */
export async function startScratch(
  scratch: Place,
  at: string | undefined,
  copy: readonly string[],
): Promise<string> {
  const time = at === undefined ? '' : asServerTime(at);
  const said = await outputOf(scratch, [...SCRATCH, time, ...copy]);
  return said.trim().split('\n').at(-1) ?? '';
}
