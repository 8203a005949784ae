// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are lines of sources
/** Each statement by which the database broker and the server's set-up say who may do what, left out and widened. */
import { type Mutant, mutantsOf, type Tests } from './mutant.ts';
import { OF_TENANTS } from './tenants.ts';

const MANAGED: Tests = { file: 'brokers/db/isolation/managed.test.ts', pattern: 'PostgreSQL 18' };

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
  ...OF_TENANTS,
  ...DRIFT,
  ...TEMPLATE,
  ...REGISTRY,
  ...BOOTSTRAP,
  ...OF_A_PROVIDER,
];
