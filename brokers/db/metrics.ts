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
    help: 'Connections that this replica holds to the server.',
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
        help: 'Whether this replica uses the server: 0 while it does not answer, or is not fit.',
        labelNames: ['server'],
        registers,
        collect() {
          for (const [server, ready] of states()) this.set({ server }, ready ? 1 : 0);
        },
      });
    },
  };
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
      'Differences from the registry that were mended.',
      'kind',
    ),
    unrepaired: gauge(
      'space_db_drift_unrepaired',
      'Differences from the registry that the last check could not mend.',
      'kind',
    ),
    spares: gauge('space_db_spares', 'Sealed databases ready to be given.'),
    dropsPending: gauge(
      'space_db_drops_pending',
      'Databases whose drop was begun and has not ended: access is cut, something may block the rest.',
    ),
    openDatabases: gauge(
      'space_db_open_databases',
      'Databases of the server that every role may connect to.',
    ),
    unknownObjects: gauge(
      'space_db_unknown_objects',
      "Databases and roles of the broker's making that its registry does not know.",
    ),
    leftoverRoles: gauge(
      'space_db_leftover_roles',
      'Roles of dropped databases that cannot be dropped, since a tenant has named them in a grant of its own.',
    ),
  };
}

/** Metrics about sessions that were ended or should have been. */
function sessionFamilies(gauge: Make<Gauge>, counter: Make<Counter>) {
  return {
    sessionsEnded: counter(
      'space_db_sessions_ended_total',
      "Tenants' sessions that were ended because they held too much of what is everybody's, or were in the broker's way.",
      'reason',
    ),
    watchLooks: counter(
      'space_db_watch_looks_total',
      "Looks at tenants' sessions; while it stands still nobody is put out.",
    ),
    sessionsKilled: gauge(
      'space_db_sessions_killed',
      'Sessions in databases of now that somebody ended by hand: the guard beside the server, the broker, an administrator.',
    ),
    stuckSessions: gauge(
      'space_db_stuck_sessions',
      "Tenants' sessions that were told to end and compute on, while drops of databases wait for them.",
    ),
  };
}

/** Metrics about what tenants use of the server, and for how long. */
function sizeFamilies(gauge: Make<Gauge>) {
  return {
    quotas: gauge(
      'space_db_capsules',
      'Capsules by how they stand to the quota of their databases.',
      'standing',
    ),
    sharedCatalogues: gauge(
      'space_db_shared_catalogue_bytes',
      'Bytes of the catalogues of the whole server, where tenants leave settings and passwords of their roles.',
    ),
    quotaBytes: gauge(
      'space_db_quota_bytes',
      'What all Capsules with a database may hold together, by their quotas.',
    ),
    oldestAnalysis: gauge(
      'space_db_oldest_analysis_seconds',
      'Since when a worker of autovacuum has analysed or summarised one table, where it runs functions of its owner.',
    ),
    unarchived: gauge(
      'space_db_unarchived_seconds',
      "Since when the server's log of changes is archived in vain; 0 where it is archived, or where that is not asked for.",
    ),
    oldestMove: gauge(
      'space_db_oldest_move_seconds',
      'Since when a Capsule that is moved from the server has waited for the next step, its databases closed; 0 where none is moved.',
    ),
    oldestTransaction: gauge(
      'space_db_oldest_transaction_age',
      'Transactions since the oldest that a database of the server still depends on; they end after 2147483648.',
    ),
  };
}
