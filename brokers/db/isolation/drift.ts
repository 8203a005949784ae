import { checkedName } from '../core/names.ts';
import type { Door } from '../core/quota.ts';

/** The role and database of one workload, as they are on the server. */
export interface Isolation {
  readonly name: string;
  /** Whether an administrator has closed the database. */
  readonly closed: boolean;
  /** Whether its sessions are to be ended before anybody may connect again. */
  readonly evicting: boolean;
  /** The state that the Capsule's size quota requires. */
  readonly door: Door;
  /** The connection limit of the Capsule's workloads; null means the broker's default. */
  readonly connections: number | null;
  readonly role: {
    readonly login: boolean;
    /** The options that would remove each attribute that the role must not have: `NOCREATEDB`, … */
    readonly powers: readonly string[];
    readonly inherit: boolean;
    readonly limit: number;
    readonly expires: boolean;
  } | null;
  /** Roles of which this role is a member, and roles that are members of it, except the broker's. */
  readonly memberOf: readonly string[];
  readonly members: readonly string[];
  readonly database: {
    readonly invalid: boolean;
    readonly open: boolean;
    readonly limit: number;
    readonly ours: boolean;
    /** Privileges of everybody except the owner, including `PUBLIC`: `name:CONNECT,CREATE,TEMPORARY`. */
    readonly grants: readonly string[];
  } | null;
}

/** A difference and the statements that repair it; none if the broker lacks the right to repair it. */
export interface Repair {
  readonly kind: 'role' | 'powers' | 'membership' | 'grants' | 'limits' | 'lost';
  readonly statements: readonly string[];
}

/** Compares the observed state with the required one, and returns a repair for each difference. */
export function decideRepairs(isolation: Isolation, defaultConnections: number): Repair[] {
  const connectionLimit = isolation.connections ?? defaultConnections;
  const { role, database } = isolation;
  if (role === null || database === null || database.invalid || !database.ours) {
    return [{ kind: 'lost', statements: [] }];
  }
  const name = checkedName(isolation.name);
  const login = !isolation.closed;
  const repairs: Repair[] = [];
  if (role.login !== login || role.inherit || role.limit !== connectionLimit || role.expires) {
    const attributes = `${login ? 'LOGIN' : 'NOLOGIN'} NOINHERIT CONNECTION LIMIT ${connectionLimit}`;
    repairs.push({ kind: 'role', statements: [`ALTER ROLE ${name} ${attributes} VALID UNTIL 'infinity'`] });
  }
  if (role.powers.length > 0) {
    // PostgreSQL refuses to let the broker remove, or even name, some of them; such a refusal is counted.
    repairs.push({ kind: 'powers', statements: [`ALTER ROLE ${name} ${role.powers.join(' ')}`] });
  }
  const revocations = [
    ...isolation.memberOf.map((group) => `REVOKE ${quoted(group)} FROM ${name}`),
    ...isolation.members.map((member) => `REVOKE ${name} FROM ${quoted(member)}`),
  ];
  if (revocations.length > 0) repairs.push({ kind: 'membership', statements: revocations });
  const wanted = `${name}:CONNECT,CREATE,TEMPORARY`;
  const unwanted = database.grants
    .filter((grant) => grant !== wanted)
    .map((grant) => grant.replace(/:[A-Z,]+$/, ''));
  if (unwanted.length > 0 || !database.grants.includes(wanted)) {
    repairs.push({
      kind: 'grants',
      statements: [
        ...unwanted.map(
          (who) => `REVOKE ALL ON DATABASE ${name} FROM ${who === 'PUBLIC' ? who : quoted(who)} CASCADE`,
        ),
        `GRANT CONNECT, CREATE, TEMPORARY ON DATABASE ${name} TO ${name}`,
      ],
    });
  }
  const open = login && (isolation.door === 'open' || isolation.door === 'tidying');
  const ofDatabase = isolation.door === 'tidying' ? 1 : connectionLimit;
  const isShutUntilThen = isolation.evicting && !database.open;
  if (!isShutUntilThen && (database.open !== open || (open && database.limit !== ofDatabase))) {
    const statement = `ALTER DATABASE ${name} WITH ALLOW_CONNECTIONS ${open} CONNECTION LIMIT ${ofDatabase}`;
    repairs.push({ kind: 'limits', statements: [statement] });
  }
  return repairs;
}

/** Quotes a name that the broker did not create as an identifier. */
function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
