import { checkedName } from '../core/names.ts';
import type { Door } from '../core/quota.ts';

/** One workload's role and database as the server has them. */
export interface Isolation {
  readonly name: string;
  /** An administrator closed it: nobody is let in. */
  readonly closed: boolean;
  /** How far its Capsule's quota opens it. */
  readonly door: Door;
  /** Connections that its Capsule may have; null is the broker's default. */
  readonly connections: number | null;
  readonly role: {
    readonly login: boolean;
    /** What takes away each power that it should not have: `NOCREATEDB`, … */
    readonly powers: readonly string[];
    readonly inherit: boolean;
    readonly limit: number;
    readonly expires: boolean;
  } | null;
  /** Roles that it is a member of, and roles but the broker that are members of it. */
  readonly memberOf: readonly string[];
  readonly members: readonly string[];
  readonly database: {
    readonly invalid: boolean;
    readonly open: boolean;
    readonly limit: number;
    readonly ours: boolean;
    /** Grantees and privileges beside the owner's, `PUBLIC` among them: `name:CONNECT,CREATE,TEMPORARY`. */
    readonly grants: readonly string[];
  } | null;
}

/** A difference: what to run against it, or nothing where the broker has no power over it. */
export interface Repair {
  readonly kind: 'role' | 'powers' | 'membership' | 'grants' | 'limits' | 'lost';
  readonly statements: readonly string[];
}

/** Compares what is with what must be, and says how to mend each difference. */
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
    // The server refuses to let us take some of them away, even to name them; such a refusal is counted.
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
  if (database.open !== open || (open && database.limit !== ofDatabase)) {
    const statement = `ALTER DATABASE ${name} WITH ALLOW_CONNECTIONS ${open} CONNECTION LIMIT ${ofDatabase}`;
    repairs.push({ kind: 'limits', statements: [statement] });
  }
  return repairs;
}

/** A name that is not ours, as an identifier. */
function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
