import { Counter, Gauge, type Registry } from 'prom-client';

/** A gauge without labels. */
interface Level {
  set(value: number): void;
}

interface Count {
  inc(): void;
}

/** A gauge with one label; `reset` forgets all of its values. */
interface Levels {
  labels(value: string): Level & Count;
  reset(): void;
}

interface Counts {
  labels(value: string): Count;
}

/** The metrics of one server, beside those of its requests. */
export interface BrokerMetrics {
  readonly repaired: Counts;
  readonly unrepaired: Levels;
  readonly spares: Level;
  readonly dropsPending: Level;
  readonly openDatabases: Level;
  readonly leftoverRoles: Level;
  readonly unknownObjects: Level;
  readonly sessionsEnded: Counts;
  readonly watchLooks: Count;
  readonly quotas: Levels;
  readonly quotaBytes: Level;
  readonly oldestTransaction: Level;
  readonly oldestAnalysis: Level;
  readonly unarchived: Level;
  readonly lastCopy: Level;
  readonly logGap: Level;
  readonly copyDamaged: Level;
  readonly oldestMove: Level;
  readonly stuckSessions: Level;
  readonly sessionsKilled: Level;
  readonly sharedCatalogues: Level;
}

export interface ServerMetrics {
  /** The metrics of one server. */
  of(server: string, connections: () => number): BrokerMetrics;
  /** Reports from now on which servers can be used. */
  watchServers(states: () => Iterable<readonly [server: string, ready: boolean]>): void;
}

/** Creates the metrics. With a single server (`several` is false), the series have no label with its name. */
export function createBrokerMetrics(registry: Registry, several = false): ServerMetrics {
  const registers = [registry];
  const families: Families = familiesOf(registers, several ? ['server'] : []);
  const open = new Map<string, () => number>();
  new Gauge({
    name: 'space_db_server_connections',
    help: 'Open connections of this replica to the server.',
    labelNames: several ? ['server'] : [],
    registers,
    collect() {
      for (const [server, count] of open) this.set(several ? { server } : {}, count());
    },
  });
  return {
    of: (server, connections) => {
      open.set(server, connections);
      return seriesOf(families, several ? { server } : {});
    },
    watchServers: (states) => {
      if (!several) return;
      new Gauge({
        name: 'space_db_server_ready',
        help: '1 while this replica uses the server; 0 while the server does not answer or is not suitable.',
        labelNames: ['server'],
        registers,
        collect() {
          for (const [server, ready] of states()) this.set({ server }, ready ? 1 : 0);
        },
      });
    },
  };
}

/** Reports whether the file of derivation keys has content that is refused. */
export function countRefusedKeys(registry: Registry, { isRefused }: { isRefused(): boolean }): void {
  new Gauge({
    name: 'space_db_derivation_keys_refused',
    help: '1 while DERIVATION_KEY_FILE has content that is refused, such as without a key that a database depends on, and this replica uses the last good content; 0 otherwise.',
    registers: [registry],
    collect() {
      this.set(isRefused() ? 1 : 0);
    },
  });
}

type Own = Readonly<Record<string, string>>;
type Families = ReturnType<typeof familiesOf>;

function seriesOf(families: Families, own: Own): BrokerMetrics {
  const level = (family: Gauge): Level => {
    family.set(own, 0);
    return { set: (value) => family.set(own, value) };
  };
  const count = (family: Counter): Count => {
    family.inc(own, 0);
    return { inc: () => family.inc(own) };
  };
  const counts = (family: Counter, label: string): Counts => ({
    labels: (value) => ({ inc: () => family.inc({ ...own, [label]: value }) }),
  });
  const levels = (family: Gauge, label: string): Levels => {
    const seen = new Set<string>();
    return {
      labels: (value) => {
        seen.add(value);
        const labels = { ...own, [label]: value };
        return { set: (to) => family.set(labels, to), inc: () => family.inc(labels) };
      },
      reset: () => {
        for (const value of seen) family.remove({ ...own, [label]: value });
        seen.clear();
      },
    };
  };
  return {
    repaired: counts(families.repaired, 'kind'),
    unrepaired: levels(families.unrepaired, 'kind'),
    spares: level(families.spares),
    dropsPending: level(families.dropsPending),
    openDatabases: level(families.openDatabases),
    unknownObjects: level(families.unknownObjects),
    leftoverRoles: level(families.leftoverRoles),
    sessionsEnded: counts(families.sessionsEnded, 'reason'),
    watchLooks: count(families.watchLooks),
    sessionsKilled: level(families.sessionsKilled),
    stuckSessions: level(families.stuckSessions),
    quotas: levels(families.quotas, 'standing'),
    sharedCatalogues: level(families.sharedCatalogues),
    quotaBytes: level(families.quotaBytes),
    oldestAnalysis: level(families.oldestAnalysis),
    unarchived: level(families.unarchived),
    lastCopy: level(families.lastCopy),
    logGap: level(families.logGap),
    copyDamaged: level(families.copyDamaged),
    oldestMove: level(families.oldestMove),
    oldestTransaction: level(families.oldestTransaction),
  };
}

function familiesOf(registers: Registry[], own: readonly string[]) {
  const gauge = (name: string, help: string, ...labels: readonly string[]): Gauge =>
    new Gauge({ name, help, labelNames: [...own, ...labels], registers });
  const counter = (name: string, help: string, ...labels: readonly string[]): Counter =>
    new Counter({ name, help, labelNames: [...own, ...labels], registers });
  return {
    ...upkeepFamilies(gauge, counter),
    ...sessionFamilies(gauge, counter),
    ...sizeFamilies(gauge),
  };
}

type Make<Metric> = (name: string, help: string, ...labels: readonly string[]) => Metric;

/** Metrics about objects beside the registry, and about their repair. */
function upkeepFamilies(gauge: Make<Gauge>, counter: Make<Counter>) {
  return {
    repaired: counter(
      'space_db_drift_repaired_total',
      'Differences between the server and the registry that were repaired.',
      'kind',
    ),
    unrepaired: gauge(
      'space_db_drift_unrepaired',
      'Differences between the server and the registry that the last check could not repair.',
      'kind',
    ),
    spares: gauge('space_db_spares', 'Spare databases that are ready for use.'),
    dropsPending: gauge(
      'space_db_drops_pending',
      'Databases whose drop has begun and is not complete; their access has already ended.',
    ),
    openDatabases: gauge(
      'space_db_open_databases',
      'Databases on the server that every role may connect to.',
    ),
    unknownObjects: gauge(
      'space_db_unknown_objects',
      'Databases and roles with names of the broker that are not in its registry.',
    ),
    leftoverRoles: gauge(
      'space_db_leftover_roles',
      'Roles of dropped databases that cannot be dropped because a grant of a tenant names them.',
    ),
  };
}

/** Metrics about sessions that were ended or should have been. */
function sessionFamilies(gauge: Make<Gauge>, counter: Make<Counter>) {
  return {
    sessionsEnded: counter(
      'space_db_sessions_ended_total',
      "Tenants' sessions that were terminated because they held too much of a shared resource or blocked an operation of the broker.",
      'reason',
    ),
    watchLooks: counter(
      'space_db_watch_looks_total',
      "Checks of all tenants' sessions; while this does not grow, no session is terminated.",
    ),
    sessionsKilled: gauge(
      'space_db_sessions_killed',
      'Sessions in existing databases that were terminated by the guard beside the server, the broker or an administrator.',
    ),
    stuckSessions: gauge(
      'space_db_stuck_sessions',
      "Tenants' sessions that continue to run after they were terminated, while drops of databases wait for them.",
    ),
  };
}

/** Metrics about what tenants use of the server, and for how long. */
function sizeFamilies(gauge: Make<Gauge>) {
  return {
    quotas: gauge('space_db_capsules', 'Capsules, by the state of the quota of their databases.', 'standing'),
    sharedCatalogues: gauge(
      'space_db_shared_catalogue_bytes',
      'Size of the shared catalogues of the server, which store the settings and passwords of roles, in bytes.',
    ),
    quotaBytes: gauge(
      'space_db_quota_bytes',
      'Sum of the quotas of all Capsules that have a database, in bytes.',
    ),
    oldestAnalysis: gauge(
      'space_db_oldest_analysis_seconds',
      "Longest time that an autovacuum worker has analysed or summarised one table, which can run its owner's functions, in seconds.",
    ),
    unarchived: gauge(
      'space_db_unarchived_seconds',
      'Time since archiving of the write-ahead log last succeeded, in seconds, while it fails or, where the Space makes copies of the server, does not end; 0 if it works or is not configured.',
    ),
    lastCopy: gauge(
      'space_db_last_copy_seconds',
      'Time since the last complete copy of the server for the backup of the Space was begun, or without one since copies are made, in seconds; 0 if none are made.',
    ),
    logGap: gauge(
      'space_db_log_gap',
      '1 if the backup of the Space lacks a file of the write-ahead log since the last complete copy; 0 otherwise.',
    ),
    copyDamaged: gauge(
      'space_db_copy_damaged',
      '1 if the last complete copy of the server for the backup of the Space has pages that do not match their checksum; 0 otherwise.',
    ),
    oldestMove: gauge(
      'space_db_oldest_move_seconds',
      'Longest time that a Capsule with closed databases has waited for the next step of its move from this server, in seconds; 0 if none is moved.',
    ),
    oldestTransaction: gauge(
      'space_db_oldest_transaction_age',
      'Transactions since the oldest one that a database on the server still depends on; the limit is 2147483648.',
    ),
  };
}
