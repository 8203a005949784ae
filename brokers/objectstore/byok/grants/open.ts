import {
  keepFile,
  type Logger,
  type Resources,
  refusal,
  Secret,
  ServiceError,
  watched,
} from '@space/broker-kit';
import type { Connections, Session } from '@space/broker-kit/postgres';
import type { GrantClaims } from '../../../../manifests/driver/grant.ts';
import { createObjectStore } from '../../objects/store.ts';
import type { ObjectCall, ObjectStore, Tenant } from '../../objects/types.ts';
import { createUploads, type Uploads } from '../../objects/uploads.ts';
import type { WriterOptions } from '../../objects/writer.ts';
import { passingFor, type Shares } from '../../quota/shares.ts';
import { createS3Client } from '../../upstream/client.ts';
import { S3Error } from '../../upstream/errors.ts';
import { routeOf, type Target } from '../../upstream/target.ts';
import type { S3Client } from '../../upstream/types.ts';
import type { Reach } from '../credentials/guarded.ts';
import type { Custody } from '../custody/custody.ts';
import type { Inventory } from '../custody/inventory.ts';
import { createPools } from './pools.ts';
import { demand, parseGrantKeys, staleGrant, verifyGrant } from './verify.ts';

/** The granted bucket of one request, while the request lasts. */
interface Granted {
  readonly claims: GrantClaims;
  readonly store: ObjectStore;
}

/**
 * Finds the bucket of a request: undefined means the Space's, since the Capsule has selected no set of its own. Throws
 * if it has and the request has no valid grant for it, or if custody cannot be trusted; one bucket never replaces the
 * other.
 */
export type OpenGranted = (call: ObjectCall) => Promise<Granted | undefined>;

/** The limits of a Capsule's own bucket are its owner's, so nothing is counted there. */
const UNCOUNTED: WriterOptions = {
  entryBytes: 0,
  quota: {
    reserve: async () => ({
      settle: () => undefined,
      release: () => undefined,
      doubt: () => undefined,
      move: async () => undefined,
    }),
  },
};

/** Connections to Capsules' own servers that are kept in addition to those of as many requests as there may be. */
const UNUSED_CONNECTIONS = 192;

const INCARNATION = `
  SELECT c.life AS incarnation FROM broker.workload AS w JOIN broker.capsule AS c ON c.capsule_id = w.capsule_id AND c.life = w.life
  WHERE w.principal = $1 AND w.state = 'ready' AND c.state = 'active'`;

/** The settings, as in the environment. */
interface GrantSettings {
  readonly GRANT_KEYS_FILE: string;
  readonly OPEN_UPLOADS: number;
  readonly OBJECT_CONNECTIONS: number;
  readonly S3_LONG_SECONDS: number;
}

interface GrantParts {
  readonly connections: Connections;
  readonly custody: Custody;
  readonly space: string;
  readonly log: Logger;
  readonly reach: Reach;
  readonly shares: Pick<Shares, 'records' | 'slots' | 'elsewhere' | 'passing'>;
  readonly now?: () => Date;
}

/** Opens the grants. @throws without a valid file of keys */
export async function openGrants(
  config: GrantSettings,
  { connections, custody, space, log, reach, shares, now = () => new Date() }: GrantParts,
  resources: Resources,
): Promise<OpenGranted> {
  const keys = keepFile(resources, await watched(config.GRANT_KEYS_FILE, parseGrantKeys, log));
  const openUploads = (credentialSet: string) =>
    createUploads({
      ...{ registry: connections, most: config.OPEN_UPLOADS, records: shares.records },
      ...{ credentialSet, now },
    });
  const pools = createPools(reach, {
    most: config.OBJECT_CONNECTIONS + UNUSED_CONNECTIONS,
    passingOf: (capsule) => passingFor(shares, capsule),
  });
  resources.closers.push(() => pools.close());

  /** Opens the store of a granted set. Only the returned object refers to the secret values. */
  async function openStore(
    inventory: Inventory,
    claims: GrantClaims,
    { tenant, signal }: ObjectCall,
  ): Promise<ObjectStore> {
    const set = inventory.sets.find(({ setId }) => setId === inventory.selected);
    // A trusted inventory always has the selected set; if not, the Space's bucket must not be used instead.
    if (set === undefined) throw new ServiceError('custody_unavailable', 'the selected set does not exist');
    if (claims.ref !== set.setId || claims.gen !== set.generation) throw staleGrant('of another generation');
    const { accessKeyId, secretAccessKey } = await custody.reveal(inventory, set.setId);
    const target: Target = {
      origin: set.endpoint,
      region: set.region,
      bucket: set.bucket,
      addressing: set.addressing,
      accessKeyId: new Secret(accessKeyId),
      secretAccessKey: new Secret(secretAccessKey),
    };
    const { origin } = routeOf(target);
    const pool = pools.of({ capsule: tenant.capsulePrefix, setId: set.setId, origin });
    const uploads = allowed(openUploads(set.setId), claims, tenant);
    const client = createS3Client(target, pool, now, config.S3_LONG_SECONDS * 1_000);
    return createObjectStore(endingWith(client, signal), uploads, UNCOUNTED);
  }

  return async (call) => {
    const { tenant, grant } = call;
    // The grant is verified first, so that an invalid one costs no look-up in custody and is refused whatever is
    // selected.
    const claims =
      grant === undefined
        ? undefined
        : await verifyGrant(grant, { keys: keys.current(), bearer: { space, ...tenant }, now: now() });
    const inventory = await custody.read(tenant.capsule, (session) => incarnationOf(session, tenant));
    if (inventory.selected === null) {
      if (claims !== undefined) throw staleGrant('no set is selected any more');
      return undefined;
    }
    if (claims === undefined) throw staleGrant('none, and a set is selected');
    return { claims, store: await openStore(inventory, claims, call) };
  };
}

/**
 * Ends each request to the server with that of the caller: nothing is counted there, so that the outcome may remain unknown, and
 * the caller's slot must be free then.
 */
function endingWith(client: S3Client, ended: AbortSignal): S3Client {
  const ending = <O extends { readonly signal?: AbortSignal | undefined }, T>(
    options: O | undefined,
    act: (options: O & { readonly signal: AbortSignal }) => Promise<T>,
  ) => {
    const { signal } = options ?? {};
    const either = signal === undefined ? ended : AbortSignal.any([signal, ended]);
    return act({ ...options, signal: either } as O & { readonly signal: AbortSignal }).catch(
      (error: unknown) => {
        // The server has been asked, which a refusal of the broker's own does not say.
        throw error === ended.reason ? new S3Error('unreachable', 0, 'Ended', { cause: error }) : error;
      },
    );
  };
  return {
    ...client,
    head: (key, options) => ending(options, (within) => client.head(key, within)),
    copy: (from, to, options) => ending(options, (within) => client.copy(from, to, within)),
    copyPart: (from, to, options) => ending(options, (within) => client.copyPart(from, to, within)),
    createUpload: (key, options) => ending(options, (within) => client.createUpload(key, within)),
    completeUpload: (key, upload, parts, options) =>
      ending(options, (within) => client.completeUpload(key, upload, parts, within)),
    abortUpload: (key, upload, options) =>
      ending(options, (within) => client.abortUpload(key, upload, within)),
  };
}

async function incarnationOf(session: Session, { digest }: Tenant): Promise<number> {
  const [row] = await session.run<{ incarnation: number }>('read incarnation of workload', INCARNATION, [
    digest,
  ]);
  // The principal was retired after the request was admitted.
  if (row === undefined) throw refusal();
  return row.incarnation;
}

/** Uploads whose keys are granted. A request names an upload by its id, so the key is taken from its row. */
function allowed(uploads: Uploads, claims: GrantClaims, { prefixes }: Tenant): Uploads {
  const demandOf = (bucketPrefix: string, key: string) => {
    const bucket = bucketPrefix === prefixes.shared ? 'shared' : 'data';
    demand(claims, { operation: 'object.put', bucket, path: key.slice(bucketPrefix.length) });
  };
  return {
    ...uploads,
    demand: demandOf,
    find: async (bucketPrefix, id) => {
      const upload = await uploads.find(bucketPrefix, id);
      if (upload !== undefined) demandOf(bucketPrefix, upload.key);
      return upload;
    },
    addBytes: async () => true,
  };
}
