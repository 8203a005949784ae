import { mutantsOf } from './mutant.ts';

const ON_18 = 'on PostgreSQL 18';
const TENANTS = { file: 'operations/tenants.test.ts', on: ON_18 };
const BLOCKED = { file: 'operations/blocked.test.ts', on: ON_18 };
const MAJORS = { file: 'operations/majors.test.ts', on: ON_18 };
const STUCK = { file: 'upkeep/stuck.test.ts', on: ON_18 };
const CUT = { file: 'operations/cut.test.ts' };
const EVICT = { file: 'operations/evict.test.ts' };
const COMMANDS = { file: 'commands.test.ts' };
const SPARES = { file: 'spares/spares.test.ts' };
const RACE = { file: 'moves/race.test.ts' };
const KEYS = { file: 'derivation-keys.test.ts' };

/** Mutations of decisions who may connect, and whose sessions are ended. */
export const ACCESS = [
  ...mutantsOf('operations/blockers.ts', [
    [
      'a session that holds a lock which the broker waits for is terminated',
      "await this.#end('lock', 'end holders', END_HOLDERS);",
      '',
      TENANTS,
      "a stranger's database does not keep it from being dropped",
    ],
    [
      'only sessions of tenants are terminated',
      "r.rolname ~ '^spc_[0-9a-f]{40}$'",
      'true',
      BLOCKED,
      'a transaction of an administrator of the server is not ended',
    ],
    [
      'a session that has stopped reading is terminated while a drop waits',
      'now - (before.get(keyOf(one)) ?? now) >= this.#patience(one, now)',
      'now < 0',
      TENANTS,
      'during a result does not delay the drop of another Capsule',
    ],
    [
      'a session that has stopped sending a COPY is terminated while a drop waits',
      "OR (a.wait_event = 'ClientRead' AND a.state = 'active')",
      '',
      TENANTS,
      'during a COPY does not delay the drop of another Capsule',
    ],
    [
      'sessions in a database that is locked for a cut are terminated repeatedly',
      'if (this.#expelled.size > 0)',
      'if (this.#expelled.size < 0)',
      CUT,
      'a cut that lost a race locks the database for its next attempt',
    ],
    [
      'a session that a drop waits for, according to its log, is told to end and is remembered',
      'this.#told.set(keyOf(one), one);',
      '',
      STUCK,
      'a computation that cannot be ended blocks drops',
    ],
  ]),
  ...mutantsOf('operations/cut.ts', [
    [
      'a cut that lost a race is tried again with exclusive access to the database',
      'for (const means of MEANS) {',
      'for (const means of MEANS.slice(0, 1)) {',
      CUT,
      'a cut that lost a race ends access though a session cannot be ended',
    ],
    [
      'the second try of a cut takes exclusive access to the database',
      "if (means === 'seize') await seize(context, session, observed);",
      '',
      CUT,
      'a cut that lost a race locks the database for its next attempt',
    ],
    [
      'a cut ends the sessions that can be ended if the database cannot be seized',
      "await session.run('end sessions', END_SESSIONS, [observed.map(({ name }) => name)]);",
      'return;',
      CUT,
      'a cut that lost a race ends access though a session cannot be ended',
    ],
    [
      'the intent to drop is stored even if access cannot be cut',
      'await connections.transaction((session) => act(session, async () => undefined));',
      '',
      BLOCKED,
      'on the role delays the cut but not the record of the drop',
    ],
    [
      'open sessions are terminated right after the commit of a cut',
      ".run('end sessions', END_SESSIONS, [names])",
      ".run('end sessions', 'SELECT $1::text[]', [names])",
      STUCK,
      'a computation that cannot be ended blocks drops',
    ],
  ]),
  ...mutantsOf('operations/finish.ts', [
    [
      'a database that still accepts connections is not dropped',
      'if (still) return true;',
      '',
      BLOCKED,
      'a transaction of a superuser on the role delays the cut but not the record of the drop',
    ],
    [
      'a database that still accepts connections is closed, and then dropped',
      'await withCut(context, async (session, cut) => cut([{ name, ...(await observe(session, name)) }]));',
      '',
      BLOCKED,
      'a transaction of a superuser on the role delays the cut but not the record of the drop',
    ],
    [
      'a session of a superuser that blocks a drop is reported as one',
      'error.code === SQLSTATE.insufficientPrivilege)',
      'error.code === SQLSTATE.internal)',
      BLOCKED,
      'a session of a superuser blocks a drop but gives no access',
    ],
    [
      'a role that other objects depend on is kept',
      'error.code === SQLSTATE.dependentObjects)) throw error;',
      'error.code === SQLSTATE.internal)) throw error;',
      TENANTS,
      'by a grant on a table does not keep its database',
    ],
    [
      'a role that is kept after a drop has no rights',
      "await session.run('silence role', roleSilencingStatement(name));",
      "await session.run('silence role', 'ROLLBACK TO SAVEPOINT role');",
      TENANTS,
      'by a grant on a table does not keep its database',
    ],
    [
      'the drop of a role that was kept is tried again later',
      'await noteLeftoverRole(session, name);',
      '',
      TENANTS,
      'by a grant on a table does not keep its database',
    ],
  ]),
  ...mutantsOf('operations/attempts.ts', [
    [
      'a spare that is locked is skipped',
      "error instanceof StepError && error.step === 'open database' && error.code === SQLSTATE.lockNotAvailable",
      "error instanceof StepError && error.step === 'nothing'",
      SPARES,
      'spares that are locked permanently are skipped',
    ],
  ]),
  ...mutantsOf('operations/ensure.ts', [
    [
      'a database whose drop was interrupted is not handed out',
      "if (found.database !== 'valid' || !found.role) {",
      'if (!found.role) {',
      MAJORS,
      'refuses a create during an interrupted drop, and completes the drop at the first attempt',
    ],
    [
      'an eviction takes exclusive access to the database',
      'if (attempt.contested || evicting) await seize',
      'if (attempt.contested) await seize',
      EVICT,
      'is out of a database that nobody can enter, should the broker die before it opens it again',
    ],
    [
      'an eviction ends the other sessions if one cannot be ended',
      "if (attempt.occupied) await session.run('end sessions', END_SESSIONS, [[name]]);",
      "if (attempt.occupied) await session.run('end sessions', 'SELECT $1::text[]', [[name]]);",
      EVICT,
      'is put out by an attempt that cannot seize the database, before anything is opened',
    ],
    [
      'an eviction closes the database until the new password is valid',
      "evicting && session.run('shut database', shuttingStatement(name)),",
      '',
      EVICT,
      'is out of a database that nobody can enter, should the broker die before it opens it again',
    ],
    [
      'an eviction opens the database only after all logins under way have ended',
      'await seize(context, session, [{ name, ...(await observe(session, name)) }]);',
      '',
      COMMANDS,
      'refuses a login that has sent the old password and is not complete when it changes',
    ],
    [
      'a database that is being dropped or is closed is not handed out',
      "if (decision.kind === 'conflict')",
      "if (decision.kind === 'conflict' && row?.closed)",
      BLOCKED,
      'a subscription blocks a drop but gives no access',
    ],
    [
      'the end of an eviction opens no database of a Capsule that is being moved',
      'if (await hasLeft(session, workload.capsule)) throw moving();',
      '',
      RACE,
      'a database that a rotation has shut is not opened by it once its Capsule is being moved',
    ],
  ]),
  ...mutantsOf('commands.ts', [
    [
      'an administrator who opens a Capsule opens no database whose eviction has not ended',
      'evicting.has(name) ? undefined : admits',
      'admits',
      EVICT,
      'that changes its password in a loop does not come in again before the session has ended',
    ],
  ]),
  ...mutantsOf('derivation-keys.ts', [
    [
      'new content of the file without a key that a database depends on is refused',
      'requireAll(next, await inUse().catch(unanswered));',
      'await inUse().catch(unanswered);',
      KEYS,
      'a derivation key that a database depends on is kept until none does, whatever becomes of the file',
    ],
  ]),
];
