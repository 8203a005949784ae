import { hkdfSync } from 'node:crypto';
import { type Logger, type Round, Secret, type ServiceMetrics } from '@space/broker-kit';
import type { Connections } from '@space/broker-kit/postgres';
import { type AdmissionOptions, createAdmission } from './api/admission.ts';
import { createCursors, type DataKeys } from './api/cursors.ts';
import { createJsonProtocol } from './api/json/protocol.ts';
import { createDataListener, type DataListener } from './api/listener.ts';
import { s3Keys } from './api/s3/access-keys.ts';
import { SESSION_TOKEN } from './api/s3/headers.ts';
import { createS3Protocol } from './api/s3/protocol.ts';
import type { OpenGranted } from './byok/grants/open.ts';
import { createGrantedStore } from './byok/grants/store.ts';
import type { BrokerMetrics } from './metrics.ts';
import { abortForgotten, abortStrays } from './objects/abandoned-uploads.ts';
import { sparingDisk } from './objects/own-disk.ts';
import { createObjectStore } from './objects/store.ts';
import type { ObjectStore } from './objects/types.ts';
import { endUnbegun } from './objects/unbegun-uploads.ts';
import { createUploads } from './objects/uploads.ts';
import { wholeStates } from './objects/whole-states.ts';
import { createTenants, type Evidence } from './principals/tenants.ts';
import { createQuota, type Quota } from './quota/allowance.ts';
import { createEnding } from './quota/credits.ts';
import { createRecount } from './quota/recount.ts';
import { usageOf } from './quota/rows.ts';
import type { Shares } from './quota/shares.ts';
import type { S3Client } from './upstream/types.ts';

export interface OpenOptions {
  readonly connections: Connections;
  /** The Space's bucket. */
  readonly s3: S3Client;
  /** The Space's bucket, over separate connections of the upkeep. */
  readonly upkeep: S3Client;
  /** Whether the bucket is on the Space's own S3 server. */
  readonly isOwnServer: boolean;
  readonly shares: Shares;
  /** The secret that cursors and S3 keys are derived from, the same in every replica. */
  readonly secret: Secret<Buffer>;
  readonly defaultQuotaBytes: number;
  readonly evidence: Evidence;
  /** The longest validity of a presigned URL, in seconds. */
  readonly presignedSeconds: number;
  /** Bytes that an object or folder costs of a quota in addition to its content. */
  readonly entryBytes: number;
  /** The most open uploads of a Capsule. */
  readonly openUploads: number;
  readonly counters: Pick<
    BrokerMetrics,
    'quotaRefusals' | 'doubtedWrites' | 'uploadsGivenUp' | 'lateParts' | 'slowEnded'
  >;
  /** Undefined if every object is in the Space's bucket. */
  readonly grants: OpenGranted | undefined;
  readonly limits: AdmissionOptions['limits'];
  readonly pace?: AdmissionOptions['pace'];
  readonly log: Logger;
  readonly metrics: ServiceMetrics;
  readonly now?: () => Date;
}

export interface OpenedPlane extends Omit<DataListener, 'close'> {
  readonly rounds: readonly Round[];
  /** Called after the last request: stores in the registry what was written. */
  close(): Promise<void>;
}

/** Seconds after which an unfinished upload is aborted. */
const FORGOTTEN_SECONDS = 24 * 60 * 60;

/** Milliseconds after which SDKs ask for credentials again; the keys themselves end with their principal. */
const CREDENTIALS_MS = 60 * 60 * 1000;

/** Assembles the data plane: store, admission, the two protocols, and the listener. */
export function openDataPlane(options: OpenOptions): OpenedPlane {
  const { connections, shares, presignedSeconds, log, metrics, now = () => new Date() } = options;
  const keys = dataKeys(options.secret);
  const tenants = createTenants(connections.lookup, options.defaultQuotaBytes, options.evidence);
  const { store, quota } = openStore(options);
  const cursors = createCursors(keys, 'cursor');

  const admission = createAdmission({
    tenants,
    limits: options.limits,
    slots: shares.slots,
    elsewhere: shares.elsewhere,
    documents: shares.documents,
    turns: shares.turns,
    passing: shares.passing,
    onSlow: (reason) => options.counters.slowEnded.inc({ reason }),
    ...(options.pace === undefined ? {} : { pace: options.pace }),
  });
  const json = createJsonProtocol({
    admission,
    tenants,
    store,
    cursors,
    usage: async ({ capsulePrefix, quotaBytes }) => {
      const back = await shares.records.take(capsulePrefix);
      return usageOf(connections.lookup, capsulePrefix, quotaBytes).finally(back);
    },
    s3Credentials: ({ digest }) => {
      const { accessKeyId, secretAccessKey } = s3Keys(keys, digest);
      const Expiration = new Date(now().getTime() + CREDENTIALS_MS).toISOString();
      const secret = secretAccessKey.reveal();
      return { AccessKeyId: accessKeyId, SecretAccessKey: secret, Token: SESSION_TOKEN, Expiration };
    },
  });
  const s3 = createS3Protocol({ admission, tenants, store, cursors, keys, presignedSeconds, now });
  const listener = createDataListener({ json, s3, admission, log, metrics });

  return {
    ...listener,
    rounds: [{ name: 'quota', gapMs: 10_000, run: () => quota.tick() }, ...uploadRounds(options, now)],
    close: async () => {
      listener.close();
      await quota.close();
    },
  };
}

/** The store: the Space's bucket with each Capsule's quota, and Capsules' own buckets if they are enabled. */
function openStore(options: OpenOptions): { readonly store: ObjectStore; readonly quota: Quota } {
  const { connections, s3, upkeep, shares, log, grants, entryBytes, counters, now } = options;
  const quota = createQuota({
    registry: connections,
    log,
    recount: createRecount({ registry: connections, client: upkeep, entryBytes }),
    onEvent: (event) =>
      event === 'refused' ? counters.quotaRefusals.inc({ limit: 'bytes' }) : counters.doubtedWrites.inc(),
  });
  const uploads = createUploads({
    registry: connections,
    most: options.openUploads,
    records: shares.records,
    onRefused: () => counters.quotaRefusals.inc({ limit: 'uploads' }),
    onLate: () => counters.lateParts.inc(),
    ...(now === undefined ? {} : { now }),
  });
  const ending = createEnding({ registry: connections, client: s3, quota, entryBytes, log });
  const reads = wholeStates(s3, { look: upkeep, isTorn: options.isOwnServer });
  const managed = createObjectStore(sparingDisk(s3), uploads, { quota, entryBytes, ending, reads });
  const store = grants === undefined ? managed : createGrantedStore(managed, grants, shares);
  return { store, quota };
}

function uploadRounds(
  { connections, upkeep, log, counters }: OpenOptions,
  now: () => Date,
): readonly Round[] {
  const afterSeconds = FORGOTTEN_SECONDS;
  const onGivenUp = () => counters.uploadsGivenUp.inc();
  return [
    {
      name: 'forgotten uploads',
      gapMs: 600_000,
      run: (stopping) => abortForgotten(connections, upkeep, { afterSeconds, now, log, onGivenUp }, stopping),
    },
    {
      name: 'unbegun uploads',
      gapMs: 600_000,
      run: (stopping) => endUnbegun(connections, upkeep, { now, log }, stopping),
    },
    {
      name: 'stray uploads',
      gapMs: 3_600_000,
      run: (stopping) => abortStrays(connections, upkeep, { afterSeconds, now, log }, stopping),
    },
  ];
}

/** There is only one data key so far. Sealed texts name their key, so that a second one can be added. */
function dataKeys(secret: Secret<Buffer>): DataKeys {
  return [new Secret(Buffer.from(hkdfSync('sha256', secret.reveal(), '', 'space-object-data/v1', 32)))];
}
