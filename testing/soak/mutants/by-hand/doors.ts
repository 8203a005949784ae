import { mutantsOf } from './mutant.ts';

const ON_18 = 'on PostgreSQL 18';
const MAJORS = { file: 'operations/majors.test.ts', on: ON_18 };
const STUCK = { file: 'upkeep/stuck.test.ts', on: ON_18 };
const COMMANDS = { file: 'commands.test.ts' };
const EVICT = { file: 'operations/evict.test.ts' };
const SPARES = { file: 'spares/spares.test.ts' };
const RESTORE = { file: 'restore.test.ts' };
const DECIDE = { file: 'core/decide.test.ts' };
const NAMES = { file: 'core/names.test.ts' };

/** Mutations of how databases, roles and spares are created, and of what commands do to them. */
export const DOORS = [
  ...mutantsOf('core/decide.ts', [
    [
      'a create of a database that is being dropped or is closed is a conflict',
      "if (row.state === 'dropping' || row.closed) return { kind: 'conflict' };",
      "if (row.state === 'dropping') return { kind: 'conflict' };",
      DECIDE,
      'create',
    ],
    [
      'a tombstone proves only the drop of its own incarnation',
      "(row.state === 'dropped' && row.incarnation !== incarnation)",
      'false',
      DECIDE,
      'drop',
    ],
    [
      'generations never restart',
      "if (row.state === 'dropped') return { kind: 'create', generation: row.generation + 1 };",
      "if (row.state === 'dropped') return { kind: 'create', generation: 1 };",
      DECIDE,
      'create',
    ],
  ]),
  ...mutantsOf('core/names.ts', [
    [
      'statements contain only names that the broker generates',
      "if (!NAME.test(name)) throw new Error('not a name of ours');",
      '',
      NAMES,
      'is refused in a statement',
    ],
    [
      'an unknown database is adopted only by its own workload',
      'return databaseName(key, space, workload, name.slice(4, 16)) === name;',
      "return name.startsWith('spc_');",
      RESTORE,
      'returns a forgotten database to its workload with a new password, and to nobody else',
    ],
  ]),
  ...mutantsOf('isolation/statements.ts', [
    [
      'a role without a database may not log in',
      ' NOLOGIN`] : []),',
      ' LOGIN`] : []),',
      MAJORS,
      'handles the lifecycle of a Capsule',
    ],
    [
      'a database is closed before it is dropped',
      'WITH ALLOW_CONNECTIONS false`] : []),',
      'WITH ALLOW_CONNECTIONS true`] : []),',
      MAJORS,
      'handles the lifecycle of a Capsule',
    ],
    [
      'a new database is closed to PUBLIC',
      'REVOKE ALL ON DATABASE',
      'REVOKE CREATE ON DATABASE',
      MAJORS,
      'lets every workload into its own database and no other',
    ],
    [
      'a tenant cannot create databases',
      'LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE',
      'LOGIN NOSUPERUSER CREATEDB NOCREATEROLE',
      MAJORS,
      'gives a hostile tenant nothing outside its database',
    ],
    [
      'a tenant cannot create roles',
      'NOCREATEDB NOCREATEROLE NOINHERIT',
      'NOCREATEDB CREATEROLE NOINHERIT',
      MAJORS,
      'gives a hostile tenant nothing outside its database',
    ],
    [
      'only sessions of superusers stay in a database that is closed',
      'a.datname = ANY ($1) AND NOT r.rolsuper AND a.pid <> pg_backend_pid()',
      'false AND a.datname = ANY ($1)',
      COMMANDS,
      'closes a retained database, which then stays closed, and opens it again',
    ],
  ]),
  ...mutantsOf('spares/pool.ts', [
    [
      'a spare accepts no connections, and nobody was granted rights on it',
      "'d.datconnlimit <> -2 AND NOT d.datallowconn AND d.datacl IS NULL'",
      "'d.datconnlimit <> -2 AND NOT d.datallowconn'",
      SPARES,
      'a spare with a grant is not used, and another replaces it',
    ],
    [
      'a spare that was opened is dropped',
      'OR (version = $3 AND spare AND spoilt)',
      '',
      SPARES,
      'a spare that somebody opened is no longer used, and another replaces it',
    ],
    [
      'spares of a newer replica are kept',
      'WHERE version < $3',
      'WHERE version <> $3',
      SPARES,
      'spares of a lower version are removed, and those of a newer replica stay',
    ],
  ]),
  ...mutantsOf('commands.ts', [
    [
      'access to a database that is closed is cut',
      'if (closed) await cut(observed);',
      '',
      COMMANDS,
      'closes a retained database, which then stays closed, and opens it again',
    ],
    [
      'a rotation terminates sessions if that was requested',
      'evicting = evicting OR $3',
      'evicting = evicting AND $3',
      EVICT,
      'is out of a database that nobody can enter, should the broker die before it opens it again',
    ],
  ]),
  ...mutantsOf('upkeep/stuck.ts', [
    [
      'the database of a session that nothing ends is closed',
      'await cut([{ name, ...(await observe(session, name)) }]);',
      '',
      STUCK,
      'a computation that cannot be ended blocks drops',
    ],
  ]),
];
