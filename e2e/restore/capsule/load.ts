/** Copies a database from the scratch server into the Space's, through this process, which stores nothing of it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { execArgs, type Place, reasonIn } from '../place.ts';
import { RestoreProblem } from '../problem.ts';
import { querySuperuser } from './queries.ts';

/** A program and its first arguments: kubectl, and the kubeconfig that it uses. */
export type Kubectl = readonly [program: string, ...args: string[]];

/** A new database's URL, and the CA of the server's certificate. */
export interface Access {
  readonly url: string;
  readonly ca: string | undefined;
  /** The server's name in the URL, and its address for pods. */
  readonly host: string;
  readonly address: string;
}

/**
 * A role may have any settings of its own, and may have been locked out. On the scratch server, of which nothing is
 * kept, it is let in and may read all of its rows.
 */
const prepare = (name: string) => `
  ALTER ROLE ${name} LOGIN BYPASSRLS CONNECTION LIMIT -1;
  ALTER ROLE ${name} RESET ALL;
  ALTER ROLE ${name} IN DATABASE ${name} RESET ALL;
  ALTER DATABASE ${name} WITH ALLOW_CONNECTIONS true CONNECTION LIMIT -1;
  ALTER DATABASE ${name} RESET ALL;`;

export async function openAll(scratch: Place, names: readonly string[]): Promise<void> {
  await querySuperuser(scratch, 'postgres', names.map(prepare).join(''));
}

/** Whether the role owns anything in its database. */
const HAS_ANYTHING = `SELECT EXISTS (SELECT FROM pg_shdepend d JOIN pg_database b ON b.oid = d.dbid
  WHERE b.datname = current_database() AND d.deptype = 'o' AND d.refobjid = (SELECT oid FROM pg_roles WHERE rolname = current_user))`;

const FILLED = 42;
/**
 * Runs in the loader pod, with only the tenant's rights, so functions that the tenant defined run as the tenant. The
 * password and the CA come first on the standard input, and are on no command line. The network admits a new pod a
 * moment after it starts. Everything is one transaction, so a database that is not empty is complete. A materialised
 * view has the rows that its owner may see.
 */
const LOAD = `read -r PGPASSWORD; read -r ca; export PGPASSWORD
if [ -n "$ca" ]; then printf %s "$ca" | base64 -d >"/tmp/$PGDATABASE.crt"; export PGSSLROOTCERT="/tmp/$PGDATABASE.crt" PGSSLMODE=verify-full; fi
tries=0
until filled=$(psql -XAtqc "${HAS_ANYTHING}" </dev/null); do
  tries=$((tries + 1)); [ $tries -lt 60 ] || exit 1; sleep 0.5
done
[ "$filled" = f ] || exit ${FILLED}
exec pg_restore --single-transaction --exit-on-error --no-owner --no-privileges --enable-row-security --dbname="$PGDATABASE"`;
const DUMP = [
  'pg_dump',
  '-Fc',
  '--compress=zstd:1',
  '--no-owner',
  '--no-privileges',
  '-h',
  '/run/postgresql',
];

function loading({ url, ca, address }: Access) {
  const { hostname, port, username, password, pathname } = new URL(url);
  const settings = {
    PGHOST: hostname,
    PGHOSTADDR: address,
    PGPORT: port || '5432',
    PGUSER: username,
    PGDATABASE: pathname.slice(1),
    PGCONNECT_TIMEOUT: '10',
  };
  const env = Object.entries(settings).map(([name, value]) => `${name}=${value}`);
  return {
    program: ['env', ...env, '/bin/sh', '-c', LOAD],
    secrets: `${decodeURIComponent(password)}\n${ca ?? ''}\n`,
  };
}

/** Returns the number of bytes copied, or undefined if an interrupted run has loaded the database already. */
export async function load(
  kubectl: Kubectl,
  { scratch, loader }: { readonly scratch: Place; readonly loader: Place },
  name: string,
  access: Access,
  signal: AbortSignal,
): Promise<number | undefined> {
  const { program, secrets } = loading(access);
  const [dumped, restored] = await piped(
    [...kubectl, ...execArgs(scratch, false), ...DUMP, '-U', name, name],
    [...kubectl, ...execArgs(loader, true), ...program],
    secrets,
    signal,
  );
  if (restored.code === FILLED) return undefined;
  for (const { code, said } of [dumped, restored])
    if (code !== 0)
      throw new RestoreProblem(`database ${name} could not be restored: ${said || `exit code ${code}`}`);
  return dumped.bytes;
}

type Program = readonly [string, ...string[]];

/** Passes the output of one program to another, after a first text. */
async function piped(from: Program, to: Program, first: string, signal: AbortSignal) {
  const start = ([program, ...args]: Program) =>
    spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'], signal });
  const [source, sink] = [start(from), start(to)];
  let bytes = 0;
  source.stdin.end();
  source.stdout.on('data', (piece: Buffer) => {
    bytes += piece.length;
  });
  // Either may end before it has read everything; its exit code then says so.
  sink.stdin.on('error', () => undefined);
  sink.on('close', () => source.stdout.destroy());
  sink.stdin.write(first);
  source.stdout.pipe(sink.stdin);
  const [dumped, restored] = await Promise.all([ended(source), ended(sink)]);
  return [{ ...dumped, bytes }, restored] as const;
}

function ended(child: ChildProcess): Promise<{ readonly code: number; readonly said: string }> {
  return new Promise((resolve, reject) => {
    let stderr = '';
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
    });
    child.on('error', reject);
    child.on('close', (code) => resolve({ code: code ?? -1, said: reasonIn(stderr) }));
  });
}
