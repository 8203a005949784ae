import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import {
  createMetrics,
  keepFile,
  LineBudget,
  type Logger,
  parseKey,
  type Resources,
  type Secret,
  watched,
} from '@space/broker-kit';
import {
  type Connections,
  closeRegistry,
  openConnections,
  requireRegistryServer,
  serverParser,
  untilReachable,
} from '@space/broker-kit/postgres';
import { openReach } from './byok/credentials/guarded.ts';
import { createVerify } from './byok/credentials/verify.ts';
import { clearCustody } from './byok/custody/discard.ts';
import { openCustody } from './byok/custody/open.ts';
import { openGrants } from './byok/grants/open.ts';
import type { Config } from './config.ts';
import type { Context } from './context.ts';
import { type BrokerMetrics, createBrokerMetrics } from './metrics.ts';
import { abortUnder } from './objects/abandoned-uploads.ts';
import { createCapsuleAuthority } from './principals/authority.ts';
import { createBindings } from './principals/bindings.ts';
import { createEpochs } from './principals/epochs.ts';
import { createPrefixNames } from './principals/prefix-names.ts';
import { createSweep } from './principals/sweep.ts';
import { leasesLapse } from './principals/tenants.ts';
import { bindUnbound } from './principals/unbound.ts';
import { createAppSizes } from './quota/app-sizes.ts';
import { createRecount } from './quota/recount.ts';
import { createShares } from './quota/shares.ts';
import { migrate } from './registry/migrations.ts';
import { type ManagedStore, openManagedStore } from './upstream/managed.ts';
import { claimBucket, ownerOf } from './upstream/owner.ts';

const CONNECTIONS = { application: 'space-objectstore-broker', lookup: 4, work: 4 };
/** Connections to the S3 server for the broker's own work. */
const OWN_UPSTREAM = { custody: 8, upkeep: 16 };
/** Milliseconds in which the bucket's server, which has just answered, must say whose the bucket is. */
const CLAIM_MS = 30_000;

/** Opens what operations need, whether a request or an administrator's command calls them. */
export async function openContext(
  config: Config,
  log: Logger,
  resources: Resources,
  failpoint: (name: string) => void = () => undefined,
) {
  const nameKey = parseKey(await readFile(config.NAME_KEY_FILE, 'utf8'), 'NAME_KEY_FILE');
  const connections = await openRegistry(config, log, resources);
  // A running request uses one connection; an aborted one may keep its connection for a moment.
  const upstream = { ...OWN_UPSTREAM, objects: config.OBJECT_CONNECTIONS };
  const managed = keepFile(resources, await openManagedStore(config, log, upstream));
  // The Space's own server has no bucket of anybody else.
  if (!config.S3_CREATE_BUCKET)
    await claimBucket(
      managed.upkeep,
      { bucket: config.S3_BUCKET, owner: ownerOf(nameKey, config.SPACE_NAME) },
      AbortSignal.timeout(CLAIM_MS),
    );
  const registry = createMetrics();
  const metrics = createBrokerMetrics(registry.registry, connections.count);
  const { custody, reseal } = await openCustody(
    {
      keyringPath: config.CUSTODY_KEYRING_FILE,
      connections,
      s3: managed.custody,
      space: config.SPACE_NAME,
      log,
      onAlarm: (alarm) => metrics.custodyAlarms.inc({ alarm }),
      failpoint,
    },
    resources,
  );
  const principals = createPrincipals({ config, log, connections, nameKey, s3: managed.custody, metrics });
  const reach = await openReach(config);
  const aMinute = config.BYOK_VERIFICATIONS_PER_MINUTE;
  const context: Context = {
    connections,
    space: config.SPACE_NAME,
    ...principals,
    sweep: createSweep({
      s3: managed.upkeep,
      abortUploads: (prefix) => abortUnder(connections, managed.upkeep, prefix),
    }),
    defaultQuotaBytes: config.DEFAULT_QUOTA_BYTES,
    appSizes: createAppSizes({ client: managed.upkeep, entryBytes: config.QUOTA_ENTRY_BYTES, log }),
    recount: createRecount({
      registry: connections,
      client: managed.upkeep,
      entryBytes: config.QUOTA_ENTRY_BYTES,
    }),
    custody,
    verify: createVerify({ ...reach, timeoutMs: 1_000 * config.BYOK_VERIFICATION_SECONDS }),
    verifications: { perSecond: aMinute / 60, burst: aMinute },
    clearCustody: (capsule) => clearCustody(custody, capsule),
    leasesLapse,
    log,
    metrics,
    failpoint,
  };
  const shares = createShares(config, metrics);
  const grants = config.DATA_PLANE_BYOK
    ? await openGrants(config, { ...context, reach, shares }, resources)
    : undefined;
  return { context, registry, reseal, managed, nameKey, grants, shares };
}

/** Returns once the registry answers, belongs to this Space, and has its tables. */
async function openRegistry(config: Config, log: Logger, resources: Resources): Promise<Connections> {
  const readCa = (path: string) => readFileSync(path, 'utf8');
  const url = config.REGISTRY_DATABASE_URL;
  const parse = serverParser({ url, setting: 'REGISTRY_DATABASE' }, readCa);
  const file = url === undefined ? config.REGISTRY_DATABASE_URL_FILE : config.REGISTRY_DATABASE_PASSWORD_FILE;
  const address = keepFile(resources, await watched(file, parse, log));
  const connections = openConnections(address, log, CONNECTIONS);
  resources.closers.push(() => connections.close());
  await untilReachable(connections, log);
  await requireRegistryServer(connections);
  await closeRegistry(connections);
  await migrate(connections, config.SPACE_NAME);
  return connections;
}

interface PrincipalOptions {
  readonly config: Config;
  readonly log: Logger;
  readonly connections: Connections;
  readonly nameKey: Secret<Buffer>;
  readonly s3: ManagedStore['s3'];
  readonly metrics: BrokerMetrics;
}

/** Creates the checks that a principal was registered by this broker, with the log and metrics for those that were not. */
function createPrincipals({ config, log, connections, nameKey, s3, metrics }: PrincipalOptions) {
  const bindings = createBindings(nameKey, config.SPACE_NAME);
  const prefixNames = createPrefixNames(nameKey, config.SPACE_NAME);
  const epochs = createEpochs({
    connections,
    s3,
    space: config.SPACE_NAME,
    log,
    onRollback: () => metrics.custodyAlarms.inc({ alarm: 'registry_rollback' }),
    bindAll: (bound) => bindUnbound({ connections, bindings, prefixNames, log }, bound),
  });
  const lines = new LineBudget(log);
  const onForged = (capsule: string, app?: string) => {
    metrics.custodyAlarms.inc({ alarm: 'forged_principal' });
    const event = 'a principal that this broker did not register';
    if (lines.allows('error', { capsule, app }, event)) log.error({ capsule, app }, event);
  };
  const { lookup } = connections;
  const capsules = createCapsuleAuthority({ lookup, bindings, prefixNames, onForged });
  return { bindings, prefixNames, epochs, onForged, capsules };
}
