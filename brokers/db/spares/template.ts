import type { Watched } from '@space/broker-kit';
import { type Connections, type ServerAddress, type Session, StepError } from '@space/broker-kit/postgres';
import pg from 'pg';
import { checkedName } from '../core/names.ts';
import { observe } from '../isolation/observe.ts';
import type { SpareNames } from './names.ts';

/**
 * Serialises replicas that start for the first time together; an arbitrary number that nothing else in a registry uses.
 */
const TEMPLATE_LOCK = 7_305_181_002;

/**
 * Ensures that the sealed template exists, and creates it again if it was lost. Spares are cloned from it and not from
 * `template1`, where an idle session of somebody else would block every clone for seconds. It is the only database
 * besides the registry that the broker connects to, and it does so only before anybody else could.
 */
export async function ensureTemplate(
  connections: Connections,
  address: Watched<ServerAddress>,
  names: SpareNames,
): Promise<void> {
  const name = checkedName(names.template);
  await connections.session(async (session) => {
    if (await isSealed(session, name)) return;
    // CREATE DATABASE cannot run in a transaction, so this is a lock of the session, which is used by others afterwards
    // and must be unlocked.
    await session.run('lock template', 'SELECT pg_advisory_lock($1)', [TEMPLATE_LOCK]);
    try {
      if (!(await isSealed(session, name))) await makeTemplate(session, address, name);
    } finally {
      await unlock(session);
    }
  });
}

/** If unlocking fails, the connection is lost, and the lock with it. The caller gets the earlier error. */
async function unlock(session: Session): Promise<void> {
  await session
    .run('unlock template', 'SELECT pg_advisory_unlock($1)', [TEMPLATE_LOCK])
    .catch(() => undefined);
}

/** Under another name until it is finished, since another replica may clone whatever has the name of the template. */
async function makeTemplate(session: Session, address: Watched<ServerAddress>, name: string): Promise<void> {
  const draft = checkedName(`${name}_draft`);
  // A broker was killed, or one of an earlier version that made it under its own name.
  for (const unfinished of [name, draft])
    await session.run('drop unfinished template', `DROP DATABASE IF EXISTS ${unfinished} WITH (FORCE)`);
  await session.run(
    'create template',
    `CREATE DATABASE ${draft} TEMPLATE template0 ENCODING 'UTF8' ALLOW_CONNECTIONS false`,
  );
  await session.run('close template', `REVOKE ALL ON DATABASE ${draft} FROM PUBLIC`);
  await session.run('open template', `ALTER DATABASE ${draft} WITH ALLOW_CONNECTIONS true`);
  await furnish(address, draft);
  // A template that forbids connections is finished.
  await session.run('seal template', `ALTER DATABASE ${draft} WITH ALLOW_CONNECTIONS false`);
  await session.run('note seal', `COMMENT ON DATABASE ${draft} IS 'sealed'`);
  await session.run('name template', `ALTER DATABASE ${draft} RENAME TO ${name}`);
}

async function isSealed(session: Session, name: string): Promise<boolean> {
  if ((await observe(session, name)).database !== 'valid') return false;
  const [row] = await session.read<{ sealed: boolean }>(
    'read template',
    `SELECT NOT datallowconn AND shobj_description(oid, 'pg_database') IS NOT DISTINCT FROM 'sealed' AS sealed
     FROM pg_database WHERE datname = $1`,
    [name],
  );
  return row?.sealed ?? false;
}

/** Whoever makes the template has the lock meanwhile: a server that says nothing must not hold it for ever. */
const ANSWER_MS = 30_000;

/** In its own database a tenant may use the public schema, as it would on a server of its own. */
async function furnish(address: Watched<ServerAddress>, database: string): Promise<void> {
  const { host, port, user, password, ssl } = address.current();
  const client = new pg.Client({
    host,
    port,
    user,
    password: password.reveal(),
    database,
    ssl,
    connectionTimeoutMillis: ANSWER_MS,
    query_timeout: ANSWER_MS,
  });
  client.on('error', () => undefined);
  try {
    await client.connect();
    await client.query('GRANT USAGE, CREATE ON SCHEMA public TO PUBLIC');
  } catch (error) {
    throw new StepError('furnish template', error);
  } finally {
    await client.end();
  }
}
