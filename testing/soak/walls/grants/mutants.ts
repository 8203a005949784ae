// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are lines of sources
/** The statements by which the database broker and the server's set-up grant rights, each omitted and widened. */
import { type Mutant, mutantsOf, type Tests } from './mutant.ts';
import { OF_TENANTS } from './tenants.ts';

const MANAGED: Tests = { file: 'brokers/db/isolation/managed.test.ts', pattern: 'PostgreSQL 18' };

const DRIFT = mutantsOf('db/isolation/drift.ts', [
  ['a role that lost LOGIN does not get it back', "${login ? 'LOGIN' : 'NOLOGIN'} NOINHERIT", 'NOINHERIT'],
  ['a role that got INHERIT keeps it', "'NOLOGIN'} NOINHERIT CONNECTION", "'NOLOGIN'} CONNECTION"],
  [
    'a changed connection limit of a role stays',
    'NOINHERIT CONNECTION LIMIT ${connectionLimit}',
    'NOINHERIT',
  ],
  ['an expiry of a role stays', " VALID UNTIL 'infinity'", ''],
  ['a forbidden attribute of a role stays', "[`ALTER ROLE ${name} ${role.powers.join(' ')}`]", '[]'],
  ['a role stays a member of another role', '`REVOKE ${quoted(group)} FROM ${name}`', '`SELECT 1`'],
  ['another role stays a member of the role', '`REVOKE ${name} FROM ${quoted(member)}`', '`SELECT 1`'],
  [
    'a grant to others stays',
    "`REVOKE ALL ON DATABASE ${name} FROM ${who === 'PUBLIC' ? who : quoted(who)} CASCADE`",
    '`SELECT 1`',
  ],
  [
    'rights that were revoked stay revoked',
    '`GRANT CONNECT, CREATE, TEMPORARY ON DATABASE ${name} TO ${name}`,',
    '',
  ],
  [
    'a changed connection limit of a database stays',
    'ALLOW_CONNECTIONS ${open} CONNECTION LIMIT ${ofDatabase}',
    'ALLOW_CONNECTIONS ${open}',
  ],
  [
    'a database that was closed stays closed',
    'WITH ALLOW_CONNECTIONS ${open} CONNECTION LIMIT ${ofDatabase}',
    'WITH CONNECTION LIMIT ${ofDatabase}',
  ],
]);

const TEMPLATE = mutantsOf('db/spares/template.ts', [
  ['PUBLIC may connect to the template', '`REVOKE ALL ON DATABASE ${draft} FROM PUBLIC`', "'SELECT 1'"],
  [
    'the template is never sealed',
    "await session.run('seal template', `ALTER DATABASE ${draft} WITH ALLOW_CONNECTIONS false`);",
    '',
  ],
  [
    'the template is never opened',
    "await session.run('open template', `ALTER DATABASE ${draft} WITH ALLOW_CONNECTIONS true`);",
    '',
  ],
  [
    'tenants may not use their public schema',
    "await client.query('GRANT USAGE, CREATE ON SCHEMA public TO PUBLIC');",
    '',
  ],
  ['tenants may create nothing in their public schema', 'GRANT USAGE, CREATE ON', 'GRANT USAGE ON'],
]);

const REGISTRY = mutantsOf('kit/postgres/reachable.ts', [
  [
    'a registry that was opened to PUBLIC stays open',
    "EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database())",
    'NULL',
  ],
]);

const BOOTSTRAP = [
  ...mutantsOf('db/postgres/bootstrap.sql', [
    ['the role of the broker does not exist', '    CREATE ROLE space_broker;', '    NULL;'],
    ['the broker may not log in', 'ALTER ROLE space_broker LOGIN', 'ALTER ROLE space_broker NOLOGIN'],
    ['the broker may not create roles', 'LOGIN CREATEROLE', 'LOGIN NOCREATEROLE'],
    ['the broker may not create databases', 'CREATEROLE CREATEDB NO', 'CREATEROLE NOCREATEDB NO'],
    ['the broker is a superuser', 'CREATEDB NOSUPERUSER', 'CREATEDB SUPERUSER'],
    ['the broker may replicate', 'NOSUPERUSER NOREPLICATION', 'NOSUPERUSER REPLICATION'],
    ['the broker bypasses row security', 'NOREPLICATION NOBYPASSRLS', 'NOREPLICATION BYPASSRLS'],
    ['the broker may not terminate sessions', 'GRANT pg_signal_backend TO space_broker;', ''],
    [
      'the broker may grant the right to terminate sessions',
      'GRANT pg_signal_backend TO space_broker;',
      'GRANT pg_signal_backend TO space_broker WITH ADMIN OPTION;',
    ],
    ['the broker does not see other sessions', 'GRANT pg_read_all_stats TO space_broker;', ''],
    [
      'the broker reads all data',
      'GRANT pg_read_all_stats TO',
      'GRANT pg_read_all_stats, pg_read_all_data TO',
    ],
    [
      'the broker has no reserved connection',
      '    GRANT pg_use_reserved_connections TO space_broker;',
      '    NULL;',
    ],
    [
      'the log contains messages about tenants’ statements',
      'ALTER ROLE ALL SET log_min_messages = fatal;',
      '',
    ],
    ['PUBLIC may connect to postgres', 'REVOKE ALL ON DATABASE postgres FROM PUBLIC;', ''],
    [
      'standbys may not connect to postgres',
      "EXECUTE format('GRANT CONNECT ON DATABASE postgres",
      "PERFORM format('GRANT CONNECT ON DATABASE postgres",
    ],
    ['every role may connect to postgres', 'AND (rolreplication', 'AND (true'],
    ['PUBLIC may connect to template1', 'REVOKE ALL ON DATABASE template1 FROM PUBLIC;', ''],
  ]),
  ...mutantsOf('db/postgres/registry.sql', [
    ['the broker does not own its registry', ' OWNER space_broker', ''],
    ['PUBLIC may connect to the registry', 'REVOKE ALL ON DATABASE space_registry FROM PUBLIC;', ''],
  ]),
  ...mutantsOf('db/postgres/objectstore.sql', [
    ['the role of the object store does not exist', '    CREATE ROLE space_objectstore;', '    NULL;'],
    ['the object store may not log in', 'space_objectstore LOGIN', 'space_objectstore NOLOGIN'],
    ['the object store may create roles', 'LOGIN NOCREATEROLE', 'LOGIN CREATEROLE'],
    ['the object store may create databases', 'NOCREATEROLE NOCREATEDB', 'NOCREATEROLE CREATEDB'],
    ['the object store is a superuser', 'NOCREATEDB NOSUPERUSER', 'NOCREATEDB SUPERUSER'],
    ['the object store may replicate', 'NOSUPERUSER NOREPLICATION', 'NOSUPERUSER REPLICATION'],
    ['the object store bypasses row security', 'NOREPLICATION NOBYPASSRLS', 'NOREPLICATION BYPASSRLS'],
    [
      'the object store has no reserved connection',
      '    GRANT pg_use_reserved_connections TO space_objectstore;',
      '    NULL;',
    ],
  ]),
  ...mutantsOf('db/postgres/objectstore-registry.sql', [
    ['the object store does not own its registry', ' OWNER space_objectstore', ''],
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
    ['the broker may not create roles', 'space_broker LOGIN CREATEROLE', 'space_broker LOGIN'],
    ['the broker may not create databases', 'CREATEROLE CREATEDB;', 'CREATEROLE;'],
    ['the object store may not log in', 'space_objectstore LOGIN;', 'space_objectstore;'],
    [
      'the object store may create databases',
      'space_objectstore LOGIN;',
      'space_objectstore LOGIN CREATEDB;',
    ],
    [
      'the broker may not terminate sessions',
      'GRANT pg_signal_backend, pg_read_all_stats',
      'GRANT pg_read_all_stats',
    ],
    ['the broker does not see other sessions', 'pg_signal_backend, pg_read_all_stats', 'pg_signal_backend'],
    [
      'the broker has no reserved connection',
      'TO space_broker, space_objectstore;\n  END',
      'TO space_objectstore;\n  END',
    ],
    [
      'the object store has no reserved connection',
      'TO space_broker, space_objectstore;\n  END',
      'TO space_broker;\n  END',
    ],
    [
      'the provider’s administrator cannot create the databases',
      'GRANT space_broker, space_objectstore TO CURRENT_USER;',
      '',
    ],
    ['the broker does not own its registry', 'space_registry OWNER space_broker', 'space_registry'],
    [
      'the object store does not own its registry',
      'space_objectstore OWNER space_objectstore',
      'space_objectstore',
    ],
    [
      'PUBLIC may connect to the registry',
      'ON DATABASE space_registry, space_objectstore',
      'ON DATABASE space_objectstore',
    ],
    [
      'PUBLIC may connect to the registry of the object store',
      'space_registry, space_objectstore FROM',
      'space_registry FROM',
    ],
    [
      'the provider’s administrator stays in both roles',
      'REVOKE space_broker, space_objectstore FROM CURRENT_USER;',
      '',
    ],
    ['PUBLIC may connect to postgres', 'REVOKE ALL ON DATABASE postgres FROM PUBLIC;', ''],
    [
      'standbys may not connect to postgres',
      "EXECUTE format('GRANT CONNECT ON DATABASE postgres",
      "PERFORM format('GRANT CONNECT ON DATABASE postgres",
    ],
    ['every role may connect to postgres', 'AND (rolreplication', 'AND (true'],
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
