// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are lines of sources
/** Each statement by which the database broker says what a tenant may do in its own database. */
import { mutantsOf, type Tests } from './mutant.ts';

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

export const OF_TENANTS = mutantsOf('db/isolation/statements.ts', [
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
