// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are lines of sources
/** Each statement by which the database broker and the server's set-up say who may do what, left out and widened. */

export interface Mutant {
  readonly file: string;
  /** Is there once. */
  readonly line: string;
  readonly broken: string;
  readonly change: string;
  readonly tests: Tests;
}

/** A file of tests, and a pattern of those in it that say something. */
export interface Tests {
  readonly file: string;
  readonly pattern: string;
}

type Row = readonly [change: string, line: string, broken: string, tests?: Tests];

const POWERS: Tests = { file: 'brokers/db/isolation/powers.test.ts', pattern: '' };
const MANAGED: Tests = { file: 'brokers/db/isolation/managed.test.ts', pattern: 'PostgreSQL 18' };
const on18 = (file: string, test: string): Tests => ({
  file: `brokers/db/${file}.test.ts`,
  pattern: `(?:PostgreSQL 18.*)${test}`,
});
const LEFT_ROLE = on18('operations/tenants', 'by a grant on a table does not keep its database');
const DOORS = on18('limits/limits', 'of bytes put out whoever passes them');
const SHUT = on18('limits/limits', 'shut out who goes on growing, against drift');
const MOVED: Tests = {
  file: 'brokers/db/moves/move.test.ts',
  pattern: 'has all that it had|keeps its limits',
};
const EVICTED: Tests = {
  file: 'brokers/db/commands.test.ts',
  pattern: 'lets nobody in who has shown the old password',
};

const mutantsOf = (file: string, rows: readonly Row[], usual = POWERS): Mutant[] =>
  rows.map(([change, line, broken, tests = usual]) => ({
    ...{ change, line, broken, tests },
    file: `brokers/${file}`,
  }));

const STATEMENTS = mutantsOf('db/isolation/statements.ts', [
  ['a tenant may not log in', 'LOGIN NOSUPERUSER', 'NOLOGIN NOSUPERUSER'],
  ['a tenant is superuser', 'LOGIN NOSUPERUSER', 'LOGIN SUPERUSER'],
  ['a tenant makes databases', ' NOCREATEDB ', ' CREATEDB '],
  ['a tenant makes roles', ' NOCREATEROLE ', ' CREATEROLE '],
  ['a tenant has what its groups have', ' NOINHERIT ', ' INHERIT '],
  ['a tenant replicates', ' NOREPLICATION ', ' REPLICATION '],
  ['a tenant passes by policies of rows', 'NOREPLICATION NOBYPASSRLS', 'NOREPLICATION BYPASSRLS'],
  [
    'a tenant has any number of connections',
    "CONNECTION LIMIT ${limit(connectionLimit)} PASSWORD '",
    "PASSWORD '",
  ],
  [
    'a tenant has no password',
    "${limit(connectionLimit)} PASSWORD '${checkedVerifier(verifier)}'",
    '${limit(connectionLimit)}',
  ],
  ['PUBLIC may do as usual', '`REVOKE ALL ON DATABASE ${own} FROM PUBLIC`,', ''],
  ['PUBLIC may connect', 'REVOKE ALL ON DATABASE', 'REVOKE TEMPORARY ON DATABASE'],
  ['PUBLIC may have temporary tables', 'REVOKE ALL ON DATABASE', 'REVOKE CONNECT ON DATABASE'],
  ['a tenant may nothing', '`GRANT CONNECT, CREATE, TEMPORARY ON DATABASE ${own} TO ${own}`,', ''],
  ['a tenant may not connect', 'GRANT CONNECT, CREATE,', 'GRANT CREATE,'],
  ['a tenant may make no schemas', 'CONNECT, CREATE, TEMPORARY ON', 'CONNECT, TEMPORARY ON'],
  ['a tenant has no temporary tables', 'CREATE, TEMPORARY ON', 'CREATE ON'],
  [
    'a tenant gives on what it has',
    'DATABASE ${own} TO ${own}`',
    'DATABASE ${own} TO ${own} WITH GRANT OPTION`',
  ],
  ['a tenant’s database is everybody’s', 'DATABASE ${own} TO ${own}`', 'DATABASE ${own} TO ${own}, PUBLIC`'],
  [
    'an idle transaction stays',
    "`ALTER ROLE ${own} IN DATABASE ${own} SET idle_in_transaction_session_timeout = '${IDLE_IN_TRANSACTION}'`,",
    '',
  ],
  [
    'a database is never opened',
    '`ALTER DATABASE ${own} WITH ALLOW_CONNECTIONS true CONNECTION LIMIT ${limit(connectionLimit)}`,',
    '',
  ],
  [
    'a database takes any number of connections',
    'ALLOW_CONNECTIONS true CONNECTION LIMIT ${limit(connectionLimit)}',
    'ALLOW_CONNECTIONS true',
  ],
  ['a role that was silenced stays so', '} LOGIN PASSWORD', '} PASSWORD'],
  ['a password that was changed stays so', " LOGIN PASSWORD '${checkedVerifier(verifier)}'", ' LOGIN'],
  ['a role that is closed may log in', '`ALTER ROLE ${checkedName(name)} NOLOGIN`] :', '] :'],
  [
    'a database that is closed is open',
    '[`ALTER DATABASE ${checkedName(name)} WITH ALLOW_CONNECTIONS false`] :',
    '[] :',
  ],
  ['a role that stays may log in', 'NOLOGIN PASSWORD NULL', 'PASSWORD NULL', LEFT_ROLE],
  ['a role that stays has its password', 'NOLOGIN PASSWORD NULL', 'NOLOGIN', LEFT_ROLE],
  [
    'who shows the old password gets in',
    'return `ALTER DATABASE ${checkedName(name)} WITH ALLOW_CONNECTIONS false`',
    "return 'SELECT 1'",
    EVICTED,
  ],
  [
    'another number of connections is not the role’s',
    '[`ALTER ROLE ${own} CONNECTION LIMIT ${limit(ofRole)}`]',
    '[]',
  ],
  [
    'another number of connections is not the database’s',
    '[`ALTER DATABASE ${own} WITH CONNECTION LIMIT ${limit(ofDatabase)}`]',
    '[]',
  ],
  [
    'who is over its quota stays in',
    'WITH ALLOW_CONNECTIONS ${open} CONNECTION LIMIT ${limit(connections)}',
    'WITH ALLOW_CONNECTIONS true CONNECTION LIMIT ${limit(connections)}',
    SHUT,
  ],
  [
    'who makes room has all its connections',
    '${open} CONNECTION LIMIT ${limit(connections)}',
    '${open}',
    DOORS,
  ],
  [
    'who copies a database needs its tenant’s password',
    "LIMIT ${COPYING} PASSWORD '${checkedVerifier(verifier)}'`",
    'LIMIT ${COPYING}`',
    MOVED,
  ],
  [
    'who copies a database finds it shut',
    '`ALTER DATABASE ${own} WITH ALLOW_CONNECTIONS true CONNECTION LIMIT ${COPYING}`,',
    '',
    MOVED,
  ],
  [
    'who has copied a database may still log in, and its tenant may not',
    "LIMIT ${limit(ofRole)} PASSWORD '${checkedVerifier(verifier)}'`",
    'LIMIT ${limit(ofRole)}`',
    MOVED,
  ],
  [
    'a role that was closed is open after a move',
    "${login ? 'LOGIN' : 'NOLOGIN'} CONNECTION",
    'LOGIN CONNECTION',
    MOVED,
  ],
  [
    'a database that was closed is open after a move',
    'WITH ALLOW_CONNECTIONS ${open} CONNECTION LIMIT ${limit(ofDatabase)}',
    'WITH ALLOW_CONNECTIONS true CONNECTION LIMIT ${limit(ofDatabase)}',
    MOVED,
  ],
  ['a role that is opened may not log in', '[`ALTER ROLE ${own} LOGIN`, ', '['],
  ['a database that is opened is shut', ', `ALTER DATABASE ${own} WITH ALLOW_CONNECTIONS true`]', ']'],
]);

const DRIFT = mutantsOf('db/isolation/drift.ts', [
  ['a role that may not log in stays so', "${login ? 'LOGIN' : 'NOLOGIN'} NOINHERIT", 'NOINHERIT'],
  ['a role that inherits stays so', "'NOLOGIN'} NOINHERIT CONNECTION", "'NOLOGIN'} CONNECTION"],
  ['a role’s number of connections stays', 'NOINHERIT CONNECTION LIMIT ${connectionLimit}', 'NOINHERIT'],
  ['a role that expires stays so', " VALID UNTIL 'infinity'", ''],
  ['a power stays', "[`ALTER ROLE ${name} ${role.powers.join(' ')}`]", '[]'],
  ['a membership stays', '`REVOKE ${quoted(group)} FROM ${name}`', '`SELECT 1`'],
  ['a member stays', '`REVOKE ${name} FROM ${quoted(member)}`', '`SELECT 1`'],
  [
    'a grant to others stays',
    "`REVOKE ALL ON DATABASE ${name} FROM ${who === 'PUBLIC' ? who : quoted(who)} CASCADE`",
    '`SELECT 1`',
  ],
  ['what was taken away stays so', '`GRANT CONNECT, CREATE, TEMPORARY ON DATABASE ${name} TO ${name}`,', ''],
  [
    'a database’s number of connections stays',
    'ALLOW_CONNECTIONS ${open} CONNECTION LIMIT ${ofDatabase}',
    'ALLOW_CONNECTIONS ${open}',
  ],
  [
    'a database that was shut stays so',
    'WITH ALLOW_CONNECTIONS ${open} CONNECTION LIMIT ${ofDatabase}',
    'WITH CONNECTION LIMIT ${ofDatabase}',
  ],
]);

const TEMPLATE = mutantsOf('db/spares/template.ts', [
  [
    'PUBLIC may connect to what spares are cloned from',
    '`REVOKE ALL ON DATABASE ${name} FROM PUBLIC`',
    "'SELECT 1'",
  ],
  [
    'what spares are cloned from is never sealed',
    "await session.run('seal template', `ALTER DATABASE ${name} WITH ALLOW_CONNECTIONS false`);",
    '',
  ],
  [
    'what spares are cloned from is never opened',
    "await session.run('open template', `ALTER DATABASE ${name} WITH ALLOW_CONNECTIONS true`);",
    '',
  ],
  [
    'tenants may not use their public schema',
    "await client.query('GRANT USAGE, CREATE ON SCHEMA public TO PUBLIC');",
    '',
  ],
  ['tenants may make nothing in their public schema', 'GRANT USAGE, CREATE ON', 'GRANT USAGE ON'],
]);

const REGISTRY = mutantsOf('kit/postgres/reachable.ts', [
  [
    'a registry that was opened stays so',
    "EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database())",
    'NULL',
  ],
]);

const BOOTSTRAP = [
  ...mutantsOf('db/postgres/bootstrap.sql', [
    ['there is no role of the broker', '    CREATE ROLE space_broker;', '    NULL;'],
    ['the broker may not log in', 'ALTER ROLE space_broker LOGIN', 'ALTER ROLE space_broker NOLOGIN'],
    ['the broker makes no roles', 'LOGIN CREATEROLE', 'LOGIN NOCREATEROLE'],
    ['the broker makes no databases', 'CREATEROLE CREATEDB NO', 'CREATEROLE NOCREATEDB NO'],
    ['the broker is superuser', 'CREATEDB NOSUPERUSER', 'CREATEDB SUPERUSER'],
    ['the broker replicates', 'NOSUPERUSER NOREPLICATION', 'NOSUPERUSER REPLICATION'],
    ['the broker passes by policies of rows', 'NOREPLICATION NOBYPASSRLS', 'NOREPLICATION BYPASSRLS'],
    ['the broker ends no sessions', 'GRANT pg_signal_backend TO space_broker;', ''],
    [
      'the broker gives on what ends sessions',
      'GRANT pg_signal_backend TO space_broker;',
      'GRANT pg_signal_backend TO space_broker WITH ADMIN OPTION;',
    ],
    ['the broker sees no sessions', 'GRANT pg_read_all_stats TO space_broker;', ''],
    [
      'the broker reads all data',
      'GRANT pg_read_all_stats TO',
      'GRANT pg_read_all_stats, pg_read_all_data TO',
    ],
    ['the broker has no place kept', '    GRANT pg_use_reserved_connections TO space_broker;', '    NULL;'],
    ['the log takes what tenants say', 'ALTER ROLE ALL SET log_min_messages = fatal;', ''],
    ['PUBLIC may connect to postgres', 'REVOKE ALL ON DATABASE postgres FROM PUBLIC;', ''],
    ['PUBLIC may connect to template1', 'REVOKE ALL ON DATABASE template1 FROM PUBLIC;', ''],
  ]),
  ...mutantsOf('db/postgres/registry.sql', [
    ['the registry is not the broker’s', ' OWNER space_broker', ''],
    ['PUBLIC may connect to the registry', 'REVOKE ALL ON DATABASE space_registry FROM PUBLIC;', ''],
  ]),
  ...mutantsOf('db/postgres/objectstore.sql', [
    ['there is no role of the object store', '    CREATE ROLE space_objectstore;', '    NULL;'],
    ['the object store may not log in', 'space_objectstore LOGIN', 'space_objectstore NOLOGIN'],
    ['the object store makes roles', 'LOGIN NOCREATEROLE', 'LOGIN CREATEROLE'],
    ['the object store makes databases', 'NOCREATEROLE NOCREATEDB', 'NOCREATEROLE CREATEDB'],
    ['the object store is superuser', 'NOCREATEDB NOSUPERUSER', 'NOCREATEDB SUPERUSER'],
    ['the object store replicates', 'NOSUPERUSER NOREPLICATION', 'NOSUPERUSER REPLICATION'],
    ['the object store passes by policies of rows', 'NOREPLICATION NOBYPASSRLS', 'NOREPLICATION BYPASSRLS'],
    [
      'the object store has no place kept',
      '    GRANT pg_use_reserved_connections TO space_objectstore;',
      '    NULL;',
    ],
  ]),
  ...mutantsOf('db/postgres/objectstore-registry.sql', [
    ['its registry is not the object store’s', ' OWNER space_objectstore', ''],
    [
      'PUBLIC may connect to the registry of the object store',
      'REVOKE ALL ON DATABASE space_objectstore FROM PUBLIC;',
      '',
    ],
  ]),
];

const OF_A_PROVIDER = mutantsOf(
  'db/postgres/managed.sql',
  [
    ['the broker may not log in', 'space_broker LOGIN', 'space_broker'],
    ['the broker makes no roles', 'space_broker LOGIN CREATEROLE', 'space_broker LOGIN'],
    ['the broker makes no databases', 'CREATEROLE CREATEDB;', 'CREATEROLE;'],
    ['the object store may not log in', 'space_objectstore LOGIN;', 'space_objectstore;'],
    ['the object store makes databases', 'space_objectstore LOGIN;', 'space_objectstore LOGIN CREATEDB;'],
    ['the broker ends no sessions', 'GRANT pg_signal_backend, pg_read_all_stats', 'GRANT pg_read_all_stats'],
    ['the broker sees no sessions', 'pg_signal_backend, pg_read_all_stats', 'pg_signal_backend'],
    [
      'the broker has no place kept',
      'TO space_broker, space_objectstore;\n  END',
      'TO space_objectstore;\n  END',
    ],
    ['the object store has none', 'TO space_broker, space_objectstore;\n  END', 'TO space_broker;\n  END'],
    ['nobody can make the databases', 'GRANT space_broker, space_objectstore TO CURRENT_USER;', ''],
    ['the registry is not the broker’s', 'space_registry OWNER space_broker', 'space_registry'],
    ['nor that of the object store', 'space_objectstore OWNER space_objectstore', 'space_objectstore'],
    [
      'PUBLIC may connect to the registry',
      'ON DATABASE space_registry, space_objectstore',
      'ON DATABASE space_objectstore',
    ],
    [
      'PUBLIC may connect to that of the object store',
      'space_registry, space_objectstore FROM',
      'space_registry FROM',
    ],
    [
      'the provider’s administrator stays in both roles',
      'REVOKE space_broker, space_objectstore FROM CURRENT_USER;',
      '',
    ],
    ['PUBLIC may connect to postgres', 'REVOKE ALL ON DATABASE postgres FROM PUBLIC;', ''],
  ],
  MANAGED,
);

export const GRANTS: readonly Mutant[] = [
  ...STATEMENTS,
  ...DRIFT,
  ...TEMPLATE,
  ...REGISTRY,
  ...BOOTSTRAP,
  ...OF_A_PROVIDER,
];
