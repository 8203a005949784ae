import { Counter, Gauge, type Registry } from 'prom-client';

/** What the broker counts beside its requests. */
export interface BrokerMetrics {
  readonly repaired: Counter<'kind'>;
  readonly unrepaired: Gauge<'kind'>;
  readonly spares: Gauge;
  readonly dropsPending: Gauge;
  readonly openDatabases: Gauge;
  readonly leftoverRoles: Gauge;
  readonly unknownObjects: Gauge;
  readonly sessionsEnded: Counter<'reason'>;
  readonly watchLooks: Counter;
  readonly quotas: Gauge<'standing'>;
  readonly quotaBytes: Gauge;
  readonly oldestTransaction: Gauge;
  readonly oldestAnalysis: Gauge;
  readonly unarchived: Gauge;
  readonly stuckSessions: Gauge;
  readonly sessionsKilled: Gauge;
  readonly sharedCatalogues: Gauge;
}

export function createBrokerMetrics(registry: Registry, connections: () => number): BrokerMetrics {
  const registers = [registry];
  new Gauge({
    name: 'space_db_server_connections',
    help: 'Connections that this replica holds to the server.',
    registers,
    collect() {
      this.set(connections());
    },
  });
  return { ...upkeepMetrics(registers), ...sessionMetrics(registers), ...sizeMetrics(registers) };
}

/** What there is beside the registry, and what was done about it. */
function upkeepMetrics(registers: Registry[]) {
  return {
    repaired: new Counter({
      name: 'space_db_drift_repaired_total',
      help: 'Differences from the registry that were mended.',
      labelNames: ['kind'] as const,
      registers,
    }),
    unrepaired: new Gauge({
      name: 'space_db_drift_unrepaired',
      help: 'Differences from the registry that the last check could not mend.',
      labelNames: ['kind'] as const,
      registers,
    }),
    spares: new Gauge({ name: 'space_db_spares', help: 'Sealed databases ready to be given.', registers }),
    dropsPending: new Gauge({
      name: 'space_db_drops_pending',
      help: 'Databases whose drop was begun and has not ended: access is cut, something may block the rest.',
      registers,
    }),
    openDatabases: new Gauge({
      name: 'space_db_open_databases',
      help: 'Databases of the server that every role may connect to.',
      registers,
    }),
    unknownObjects: new Gauge({
      name: 'space_db_unknown_objects',
      help: "Databases and roles of the broker's making that its registry does not know.",
      registers,
    }),
    leftoverRoles: new Gauge({
      name: 'space_db_leftover_roles',
      help: 'Roles of dropped databases that cannot be dropped, since a tenant has named them in a grant of its own.',
      registers,
    }),
  };
}

/** Counts sessions that were ended, and those that should have been. */
function sessionMetrics(registers: Registry[]) {
  return {
    sessionsEnded: new Counter({
      name: 'space_db_sessions_ended_total',
      help: "Tenants' sessions that were ended because they held too much of what is everybody's, or were in the broker's way.",
      labelNames: ['reason'] as const,
      registers,
    }),
    watchLooks: new Counter({
      name: 'space_db_watch_looks_total',
      help: "Looks at tenants' sessions; while it stands still nobody is put out.",
      registers,
    }),
    sessionsKilled: new Gauge({
      name: 'space_db_sessions_killed',
      help: 'Sessions in databases of now that somebody ended by hand: the guard beside the server, the broker, an administrator.',
      registers,
    }),
    stuckSessions: new Gauge({
      name: 'space_db_stuck_sessions',
      help: "Tenants' sessions that were told to end and compute on, while drops of databases wait for them.",
      registers,
    }),
  };
}

/** What tenants hold of the server, and for how long. */
function sizeMetrics(registers: Registry[]) {
  return {
    quotas: new Gauge({
      name: 'space_db_capsules',
      help: 'Capsules by how they stand to the quota of their databases.',
      labelNames: ['standing'] as const,
      registers,
    }),
    sharedCatalogues: new Gauge({
      name: 'space_db_shared_catalogue_bytes',
      help: 'Bytes of the catalogues of the whole server, where tenants leave settings and passwords of their roles.',
      registers,
    }),
    quotaBytes: new Gauge({
      name: 'space_db_quota_bytes',
      help: 'What all Capsules with a database may hold together, by their quotas.',
      registers,
    }),
    oldestAnalysis: new Gauge({
      name: 'space_db_oldest_analysis_seconds',
      help: 'Since when a worker of autovacuum has analysed or summarised one table, where it runs functions of its owner.',
      registers,
    }),
    unarchived: new Gauge({
      name: 'space_db_unarchived_seconds',
      help: "Since when the server's log of changes is archived in vain; 0 where it is archived, or where that is not asked for.",
      registers,
    }),
    oldestTransaction: new Gauge({
      name: 'space_db_oldest_transaction_age',
      help: 'Transactions since the oldest that a database of the server still depends on; they end after 2147483648.',
      registers,
    }),
  };
}
