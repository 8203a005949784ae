import type { TokenDigest } from '@space/broker-kit';
import type { Session } from '@space/broker-kit/postgres';
import { prefixesOf } from '../objects/object-key.ts';
import type { Tenant } from '../objects/types.ts';
import type { Bindings } from './bindings.ts';
import type { Epochs } from './epochs.ts';

/**
 * A replica may reuse a look-up of a principal for a moment, so that not every request needs the registry. A call that
 * ends a principal waits, after its commit and before its answer, until no replica can still use an earlier look-up: so
 * the answer holds for all replicas, and none has to be notified.
 */

/** Milliseconds for which a result may be used, from the beginning of its look-up. */
export const LEASE_MS = 100;

/** Milliseconds for the different speed of replicas' clocks, and for timers that end a little early. */
const MARGIN_MS = 50;

/** Resolves when every result from before the call has expired. */
export function leasesLapse(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, LEASE_MS + MARGIN_MS));
}

/** Finds the tenant with a digest, or with its first bytes; undefined if there is none. */
export interface Tenants {
  byDigest(digest: TokenDigest): Promise<Tenant | undefined>;
  /** Finds a tenant by the first 16 bytes of the digest, which name a principal in S3 access keys. */
  byHandle(handle: Buffer): Promise<Tenant | undefined>;
}

export const HANDLE_BYTES = 16;

interface TenantRow {
  readonly capsule: string;
  readonly app: string;
  readonly capsulePrefix: string;
  readonly data: string;
  readonly quota: number | null;
  readonly digest: Buffer;
  readonly incarnation: number;
  readonly generation: number;
  readonly mac: Buffer | null;
  readonly epoch: number;
}

/** The checks of a row before it admits anybody. */
export interface Evidence {
  readonly bindings: Pick<Bindings, 'workload'>;
  /** Throws if the registry was set back. */
  readonly epochs: Pick<Epochs, 'expect'>;
  /** Called for a row that this broker did not write. */
  readonly onForged: (capsule: string, app: string) => void;
}

/** Finds workloads whose principals begin with a handle, by the index of principals whatever the planner expects. */
const among = (handle: string, highest: string) => `
  SELECT w.capsule_id AS capsule, w.app_id AS app, s.place AS "capsulePrefix", w.place AS data, s.quota_bytes::float8 AS quota,
         w.principal AS digest, w.life AS incarnation, w.generation, w.mac, (SELECT number::float8 FROM broker.epoch) AS epoch
  FROM broker.workload AS w
  JOIN broker.store AS s ON s.capsule_id = w.capsule_id AND s.life = w.life
  JOIN broker.capsule AS c ON c.capsule_id = w.capsule_id
  WHERE w.principal BETWEEN ${handle} AND ${handle} || ${highest} AND w.state = 'ready' AND c.state = 'active'`;
const FIND_ONE = among('$1::bytea', '$2::bytea');
const FIND_SEVERAL = `
  SELECT found.* FROM unnest($1::bytea[]) AS wanted(handle)
  CROSS JOIN LATERAL (${among('wanted.handle', '$2::bytea')} OFFSET 0) AS found`;

const HIGHEST = Buffer.alloc(32 - HANDLE_BYTES, 0xff);

/** Resolves when all requests that had arrived by now have asked. */
const turnEnds = () => new Promise<void>((resolve) => setImmediate(resolve));

/** With more leases than this, expired ones are forgotten. */
const MOST_LEASES = 1_000;

/**
 * Reuses a result for the time of a lease. Requests that arrive together, or during a look-up, share the next look-up:
 * under load one statement answers many requests, each of which arrived before it began.
 */
export function createTenants(
  lookup: Session,
  defaultQuota: number,
  { bindings, epochs, onForged }: Evidence,
  now: () => number = () => performance.now(),
): Tenants {
  const leases = new Map<string, { readonly tenant: Tenant; readonly until: number }>();
  let gathering:
    | { readonly handles: Map<string, Buffer>; readonly rows: Promise<Map<string, Tenant>> }
    | undefined;
  let running: Promise<unknown> = Promise.resolve();

  async function find(handles: ReadonlyMap<string, Buffer>): Promise<Map<string, Tenant>> {
    const until = now() + LEASE_MS;
    const found = new Map<string, Tenant>();
    for (const row of await findWorkloads(lookup, [...handles.values()])) {
      await epochs.expect(row.epoch);
      if (isBound(bindings, row)) found.set(handleOf(row.digest), tenantOf(row, defaultQuota));
      else onForged(row.capsule, row.app);
    }
    if (leases.size > MOST_LEASES) forgetLapsed();
    for (const [name, tenant] of found) leases.set(name, { tenant, until });
    return found;
  }

  function forgetLapsed(): void {
    const at = now();
    for (const [name, { until }] of leases) if (until <= at) leases.delete(name);
  }

  async function byHandle(handle: Buffer): Promise<Tenant | undefined> {
    const name = handle.toString('hex');
    const lease = leases.get(name);
    if (lease !== undefined && now() < lease.until) return lease.tenant;
    if (gathering === undefined) {
      const handles = new Map<string, Buffer>();
      const rows = running.then(turnEnds).then(() => {
        gathering = undefined;
        return find(handles);
      });
      running = rows.catch(() => undefined);
      gathering = { handles, rows };
    }
    gathering.handles.set(name, handle);
    return (await gathering.rows).get(name);
  }

  return {
    byHandle,
    byDigest: async (digest) => {
      const tenant = await byHandle(digest.subarray(0, HANDLE_BYTES));
      return tenant?.digest.equals(digest) ? tenant : undefined;
    },
  };
}

function findWorkloads(lookup: Session, handles: readonly Buffer[]): Promise<TenantRow[]> {
  return handles.length === 1
    ? lookup.run<TenantRow>('find workload', FIND_ONE, [handles[0], HIGHEST])
    : lookup.run<TenantRow>('find workloads', FIND_SEVERAL, [handles, HIGHEST]);
}

/** Whether this broker gave the row's prefixes to its principal. */
function isBound(bindings: Evidence['bindings'], row: TenantRow): boolean {
  const { data: prefix, digest: principal, mac, ...named } = row;
  return bindings.workload.holds({ ...named, prefix, principal }, mac);
}

function tenantOf(row: TenantRow, defaultQuota: number): Tenant {
  return {
    capsule: row.capsule,
    app: row.app,
    capsulePrefix: row.capsulePrefix,
    prefixes: prefixesOf(row.data, `${row.capsulePrefix}s/`),
    quotaBytes: row.quota ?? defaultQuota,
    digest: row.digest,
  };
}

function handleOf(digest: Buffer): string {
  return digest.toString('hex', 0, HANDLE_BYTES);
}
