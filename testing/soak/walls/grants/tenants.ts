// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are lines of sources
/** The statements by which the database broker grants a tenant rights on its own database. */
import { mutantsOf, type Tests } from './mutant.ts';

const on18 = (file: string, test: string): Tests => ({
  file: `brokers/db/${file}.test.ts`,
  pattern: `(?:PostgreSQL 18.*)${test}`,
});
const LEFT_ROLE = on18('operations/tenants', 'by a grant on a table does not keep its database');
const DOORS = on18('limits/limits', 'of bytes end the sessions of a Capsule above them');
const SHUT = on18('limits/limits', 'close a Capsule that continues to grow');
const MOVED: Tests = {
  file: 'brokers/db/moves/move.test.ts',
  pattern: 'has all its data|keeps its limits',
};
const STAYED: Tests = {
  file: 'brokers/db/moves/hostile.test.ts',
  pattern: 'whose grants name the role of another Capsule',
};
const EVICTED: Tests = {
  file: 'brokers/db/commands.test.ts',
  pattern: 'refuses a login that has sent the old password',
};

export const OF_TENANTS = mutantsOf('db/isolation/statements.ts', [
  ['a tenant may not log in', 'LOGIN NOSUPERUSER', 'NOLOGIN NOSUPERUSER'],
  ['a tenant is a superuser', 'LOGIN NOSUPERUSER', 'LOGIN SUPERUSER'],
  ['a tenant may create databases', ' NOCREATEDB ', ' CREATEDB '],
  ['a tenant may create roles', ' NOCREATEROLE ', ' CREATEROLE '],
  ['a tenant inherits the rights of its groups', ' NOINHERIT ', ' INHERIT '],
  ['a tenant may replicate', ' NOREPLICATION ', ' REPLICATION '],
  ['a tenant bypasses row security', 'NOREPLICATION NOBYPASSRLS', 'NOREPLICATION BYPASSRLS'],
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
  ['PUBLIC keeps its default rights', '`REVOKE ALL ON DATABASE ${own} FROM PUBLIC`,', ''],
  ['PUBLIC may connect', 'REVOKE ALL ON DATABASE', 'REVOKE TEMPORARY ON DATABASE'],
  ['PUBLIC may create temporary tables', 'REVOKE ALL ON DATABASE', 'REVOKE CONNECT ON DATABASE'],
  [
    'a tenant has no rights on its database',
    '`GRANT CONNECT, CREATE, TEMPORARY ON DATABASE ${own} TO ${own}`,',
    '',
  ],
  ['a tenant may not connect', 'GRANT CONNECT, CREATE,', 'GRANT CREATE,'],
  ['a tenant may not create schemas', 'CONNECT, CREATE, TEMPORARY ON', 'CONNECT, TEMPORARY ON'],
  ['a tenant may not create temporary tables', 'CREATE, TEMPORARY ON', 'CREATE ON'],
  [
    'a tenant may grant its rights to others',
    'DATABASE ${own} TO ${own}`',
    'DATABASE ${own} TO ${own} WITH GRANT OPTION`',
  ],
  [
    'PUBLIC has the tenant’s rights on its database',
    'DATABASE ${own} TO ${own}`',
    'DATABASE ${own} TO ${own}, PUBLIC`',
  ],
  [
    'an idle transaction is not ended',
    "`ALTER ROLE ${own} IN DATABASE ${own} SET idle_in_transaction_session_timeout = '${IDLE_IN_TRANSACTION}'`,",
    '',
  ],
  [
    'a database is never opened',
    '`ALTER DATABASE ${own} WITH ALLOW_CONNECTIONS true CONNECTION LIMIT ${limit(connectionLimit)}`,',
    '',
  ],
  [
    'a database accepts any number of connections',
    'ALLOW_CONNECTIONS true CONNECTION LIMIT ${limit(connectionLimit)}',
    'ALLOW_CONNECTIONS true',
  ],
  ['a role that lost LOGIN does not get it back', '} LOGIN PASSWORD', '} PASSWORD'],
  ['a changed password stays', " LOGIN PASSWORD '${checkedVerifier(verifier)}'", ' LOGIN'],
  ['the role of a closed database may log in', '`ALTER ROLE ${checkedName(name)} NOLOGIN`] :', '] :'],
  [
    'a closed database accepts connections',
    '[`ALTER DATABASE ${checkedName(name)} WITH ALLOW_CONNECTIONS false`] :',
    '[] :',
  ],
  ['a role that is kept after a drop may log in', 'NOLOGIN PASSWORD NULL', 'PASSWORD NULL', LEFT_ROLE],
  ['a role that is kept after a drop keeps its password', 'NOLOGIN PASSWORD NULL', 'NOLOGIN', LEFT_ROLE],
  [
    'a login with the old password succeeds',
    'return `ALTER DATABASE ${checkedName(name)} WITH ALLOW_CONNECTIONS false`',
    "return 'SELECT 1'",
    EVICTED,
  ],
  [
    'a new connection limit is not applied to the role',
    '[`ALTER ROLE ${own} CONNECTION LIMIT ${limit(ofRole)}`]',
    '[]',
  ],
  [
    'a new connection limit is not applied to the database',
    '[`ALTER DATABASE ${own} WITH CONNECTION LIMIT ${limit(ofDatabase)}`]',
    '[]',
  ],
  [
    'a tenant over its quota may still connect',
    'WITH ALLOW_CONNECTIONS ${open} CONNECTION LIMIT ${limit(connections)}',
    'WITH ALLOW_CONNECTIONS true CONNECTION LIMIT ${limit(connections)}',
    SHUT,
  ],
  [
    'a tenant that may only delete data has all its connections',
    '${open} CONNECTION LIMIT ${limit(connections)}',
    '${open}',
    DOORS,
  ],
  [
    'a copy needs the tenant’s password',
    "LIMIT ${COPYING} PASSWORD '${checkedVerifier(verifier)}'`",
    'LIMIT ${COPYING}`',
    MOVED,
  ],
  [
    'a copy cannot connect to the database',
    '`ALTER DATABASE ${own} WITH ALLOW_CONNECTIONS true CONNECTION LIMIT ${COPYING}`,',
    '',
    MOVED,
  ],
  [
    'a role that stayed on the target may not log in for a copy',
    'LOGIN CONNECTION LIMIT ${COPYING}',
    'CONNECTION LIMIT ${COPYING}',
    STAYED,
  ],
  [
    'after a copy its password stays valid instead of the tenant’s',
    "LIMIT ${limit(ofRole)} PASSWORD '${checkedVerifier(verifier)}'`",
    'LIMIT ${limit(ofRole)}`',
    MOVED,
  ],
  [
    'a role without LOGIN has it after a move',
    "${login ? 'LOGIN' : 'NOLOGIN'} CONNECTION",
    'LOGIN CONNECTION',
    MOVED,
  ],
  [
    'a closed database accepts connections after a move',
    'WITH ALLOW_CONNECTIONS ${open} CONNECTION LIMIT ${limit(ofDatabase)}',
    'WITH ALLOW_CONNECTIONS true CONNECTION LIMIT ${limit(ofDatabase)}',
    MOVED,
  ],
  ['the role of an opened database may not log in', '[`ALTER ROLE ${checkedName(name)} LOGIN`, ', '['],
  ['an opened database accepts no connections', ', ...door]', ']'],
]);
