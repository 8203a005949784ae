import { ServiceError } from '@space/broker-kit';
import type { Session } from '@space/broker-kit/postgres';
import type { Principal } from '@space/broker-kit/principals';
import { hasConnections } from '../limits/capacity.ts';
import { connectionsGranted, readLimits } from '../limits/rows.ts';
import { livingDatabases } from '../registry/rows.ts';
import type { Servers } from '../servers/router.ts';
import type { Moving, Way } from './way.ts';

/** Refuses a move before anything is changed, if it could not be completed or would change the data. */
export async function requireFit(servers: Servers, way: Way): Promise<void> {
  const { capsule, from, to } = way;
  if (servers.all.find(({ name }) => name === to.name)?.drain)
    throw new ServiceError('conflict', `server ${to.name} is draining and gets no more Capsules`);
  await to.context.ensureTemplate();
  const { databases, limits } = await from.context.connections.transaction(async (session) => {
    const found = await livingDatabases(session, capsule);
    requireMovable(await stateOf(session, capsule), found);
    return { databases: found, limits: await readLimits(session, capsule) };
  });
  const granted = await to.context.connections.session((session) =>
    connectionsGranted(session, capsule, to.context.connectionLimit),
  );
  const connections = limits?.connections ?? to.context.connectionLimit;
  if (!hasConnections({ ...granted, own: 0 }, connections, workloadsIn(databases)))
    throw new ServiceError('quota_exceeded', `server ${to.name} has no connections left to promise`);
  await requireAlike(way, databases);
}

/** The number of databases that need connections: the Capsule's own database needs none. */
export const workloadsIn = (databases: readonly Moving[]): number =>
  databases.filter(({ app }) => app !== '').length;

async function stateOf(session: Session, capsule: string): Promise<Principal['state'] | undefined> {
  const [row] = await session.read<{ state: Principal['state'] }>(
    'read state',
    'SELECT state FROM broker.capsule WHERE capsule_id = $1',
    [capsule],
  );
  return row?.state;
}

/** A Capsule or database that is being dropped cannot be moved. */
export function requireMovable(state: Principal['state'] | undefined, databases: readonly Moving[]): void {
  const dropping = databases.find((one) => one.state === 'dropping');
  if (state === 'dropping' || dropping !== undefined)
    throw new ServiceError(
      'conflict',
      `${dropping === undefined ? 'the Capsule' : `database ${dropping.name}`} is being dropped: move it when that has ended`,
    );
}

interface Made {
  readonly version: number;
  /** The provider, version and locale by which a database compares and sorts text. */
  readonly text: string;
}

async function madeOn(session: Session, names: readonly string[]): Promise<Made[]> {
  return session.read<Made>(
    'compare servers',
    `SELECT DISTINCT current_setting('server_version_num')::int / 10000 AS version,
       concat_ws(' ', pg_encoding_to_char(encoding), datlocprovider, datcollate, datctype,
         to_jsonb(d)->>'daticulocale', to_jsonb(d)->>'datlocale') AS text
     FROM pg_database d WHERE datname = ANY ($1)`,
    [names],
  );
}

/** A database is moved neither to an older server nor to one that sorts text differently. */
async function requireAlike({ from, to }: Way, databases: readonly Moving[]): Promise<void> {
  const [theirs] = await to.context.connections.session((session) =>
    madeOn(session, [to.context.spares.template]),
  );
  const names = databases.map(({ name }) => name);
  const ours = await from.context.connections.session((session) => madeOn(session, names));
  for (const one of ours) {
    if (theirs === undefined) throw new ServiceError('unavailable', `server ${to.name} has no template yet`);
    if (theirs.version < one.version)
      throw new ServiceError(
        'conflict',
        `server ${to.name} has PostgreSQL ${theirs.version}, and ${from.name} ${one.version}: upgrade it first`,
      );
    if (theirs.text !== one.text)
      throw new ServiceError(
        'conflict',
        `server ${to.name} creates databases with "${theirs.text}", and those of the Capsule have "${one.text}"`,
      );
  }
}
