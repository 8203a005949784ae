/** The server of then, which a restore of one Capsule begins with, and what of it is left out. */
import { setTimeout as wait } from 'node:timers/promises';
import { copiesIn, copyFor } from '../copies.ts';
import { type Place, told } from '../place.ts';
import { RestoreProblem } from '../problem.ts';
import { asked, othersDatabases } from './asking.ts';
import type { Places } from './model.ts';

const SCRATCH = ['/bin/sh', '/usr/share/space/scratch.sh'];
const PROGRESS_MS = 100;
/**
 * A try to archive a segment takes up to a minute where the bucket does not answer, and after three that failed the server waits
 * for another minute: one short fault of the network is no reason to give up.
 */
const ARCHIVED_WITHIN_MS = 300_000;

/**
 * Has the server archive what it has written, so that the log reaches any moment that has been. A transaction of its own
 * closes the log: only by one that is later than a moment does a server that recovers know that it has reached it.
 */
export async function archiveNow(server: Place, signal: AbortSignal): Promise<void> {
  await asked(server, 'postgres', 'SELECT pg_current_xact_id();');
  const wal = await asked(server, 'postgres', 'SELECT pg_walfile_name(pg_switch_wal());');
  // A server that recovers forgets its statistics; a file of its log it marks as archived before it removes it, and not otherwise.
  const archived = `SELECT coalesce(last_archived_wal >= :'wal', false)
    OR EXISTS (SELECT FROM pg_ls_archive_statusdir() WHERE name = :'wal' || '.done')
    OR NOT EXISTS (SELECT FROM pg_ls_waldir() WHERE name = :'wal') FROM pg_stat_archiver`;
  const deadline = performance.now() + ARCHIVED_WITHIN_MS;
  while ((await asked(server, 'postgres', archived, { wal })) !== 't') {
    if (performance.now() > deadline)
      throw new RestoreProblem(
        'the Space’s server cannot archive its log, so no backup of it reaches the present: look at the log of container postgres of postgres-0. Nothing was changed',
      );
    await wait(PROGRESS_MS, undefined, { signal });
  }
}

/** Which copy a server of then begins with, and which databases in it are others'. @throws RestoreProblem where there is none */
export async function copyOfThen(
  { server, scratch }: Pick<Places, 'server' | 'scratch'>,
  at: string | undefined,
  capsule: string,
): Promise<readonly string[]> {
  const [others, { all }] = await Promise.all([othersDatabases(server, capsule), copiesIn(scratch)]);
  const { label } = copyFor(all, at);
  const [copy] = (await copiesIn(scratch, label)).all;
  const left = new Set(others);
  const without = (copy?.['database-ref'] ?? [])
    .filter(({ oid }) => left.has(String(oid)))
    .map(({ oid }) => `--db-exclude=${oid}`);
  return [`--set=${label}`, ...without];
}

/** Starts a server in the pod with all that the Space's had at that moment, but for what is left out. Answers what it reached. */
export async function startScratch(
  scratch: Place,
  at: string | undefined,
  copy: readonly string[],
): Promise<string> {
  const time = at === undefined ? '' : at.replace('T', ' ').replace(/Z$/, '+00');
  const said = await told(scratch, [...SCRATCH, time, ...copy]);
  return said.trim().split('\n').at(-1) ?? '';
}
