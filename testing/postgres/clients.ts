import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { run } from '../../e2e/cluster/run.ts';
import { fromDebian } from '../installed/debian.ts';
import type { PostgresMajor } from './binaries.ts';

/** pg_dump, pg_restore and psql of this Debian, which the npm packages do not contain. */
export interface Clients {
  readonly major: PostgresMajor;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Uses the directory in POSTGRES_CLIENTS if it is set, for a version that this Debian does not have. */
export async function findClients(): Promise<Clients> {
  const given = process.env['POSTGRES_CLIENTS'];
  if (given !== undefined) return clientsIn(given);
  const depends = await run(['apt-cache', 'depends', 'postgresql-client']);
  const [, major] = /Depends: postgresql-client-(\d+)/.exec(depends) ?? [];
  if (!isMajor(major)) throw new Error('apt knows no postgresql-client that the tests have a server for');
  const bin = `usr/lib/postgresql/${major}/bin`;
  const { program, env } = await fromDebian(`postgresql-client-${major}`, bin);
  return { major, env: { ...env, PATH: `${program}:${process.env['PATH']}` } };
}

async function clientsIn(directory: string): Promise<Clients> {
  const version = await run([join(directory, 'pg_dump'), '--version']);
  const [, major] = /\(PostgreSQL\) (\d+)/.exec(version) ?? [];
  if (!isMajor(major)) throw new Error(`${directory}: the tests have no server of the version of ${version}`);
  return { major, env: { PATH: `${directory}:${process.env['PATH']}` } };
}

const isMajor = (major: string | undefined): major is PostgresMajor =>
  major === '15' || major === '16' || major === '17' || major === '18';

const COPY = fileURLToPath(new URL('../../brokers/db/postgres/copy.sh', import.meta.url));

/**
 * Copies a database from one URL to the other with the image's program; rejects with its error output. Grants are
 * compared if they are to one of the `roles`.
 */
export async function copyDatabase(
  { env }: Clients,
  {
    from,
    to,
    roles = [],
  }: { readonly from: string; readonly to: string; readonly roles?: readonly string[] },
  settings: Readonly<Record<string, string>> = {},
): Promise<{ readonly bytes: number; readonly sha256: string }> {
  const child = spawn('sh', [COPY], { env: { ...env, ...settings } });
  child.stdin.end(`${from}\n${to}\n${roles.join(' ')}\n`);
  const [said, complaints, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ]);
  if (code !== 0) throw new Error(complaints);
  return JSON.parse(said);
}
