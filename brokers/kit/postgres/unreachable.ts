import type { StepError } from './errors.ts';

const SILENT =
  'it does not answer: start it, or allow the brokers to reach it in postgres.external.cidrs or .pods and in its own firewall';

/** What a person can do about an unreachable server, by the code of Node or of the server. */
const ADVICE: readonly [RegExp, string][] = [
  [
    /^(ENOTFOUND|EAI_AGAIN|EAI_FAIL)$/,
    'DNS does not know its name: correct postgres.external.host, or network.dns',
  ],
  [/^ECONNREFUSED$/, 'nothing listens there: start it, or correct postgres.external.host and port'],
  [/^(ETIMEDOUT|EHOSTUNREACH|ENETUNREACH)$/, SILENT],
  [
    /^(SELF_SIGNED_CERT_IN_CHAIN|DEPTH_ZERO_SELF_SIGNED_CERT|UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER_CERT(_LOCALLY)?|CERT_SIGNATURE_FAILURE|ERR_OSSL_.*)$/,
    'its certificate is not from a trusted authority: put the one that signed it into postgres.external.ca',
  ],
  [
    /^ERR_TLS_CERT_ALTNAME_INVALID$/,
    'its certificate is for another name: correct postgres.external.host, or have one issued for it',
  ],
  [/^CERT_(HAS_EXPIRED|NOT_YET_VALID)$/, 'its certificate is not valid at this time: have it renewed'],
  [/^28P01$/, 'it refuses role or password: correct the Secret, or set it with ALTER ROLE … PASSWORD'],
  [
    /^28000$/,
    'it refuses this role: create the role with bootstrap.sql or managed.sql, and allow it over TLS in pg_hba.conf',
  ],
  [
    /^3D000$/,
    'the registry database does not exist: CREATE DATABASE, as registry.sql and objectstore-registry.sql do',
  ],
  [
    /^53300$/,
    'it has no connection left: end some, raise max_connections, or the limit of the role (ALTER ROLE … CONNECTION LIMIT -1)',
  ],
  [/^42501$/, 'this role may not connect to its registry: ALTER DATABASE … OWNER TO the role'],
  [
    /^08P01$/,
    'it refuses the settings of a session, as a connection pooler in front of a server does: name the server itself',
  ],
  [/^57P03$/, 'it starts, stops or recovers'],
];

/** The driver has no code for this error. */
const NO_TLS = 'The server does not support SSL connections';

/** A sentence that says why a server is not reached; it contains nothing of the server's own text. */
export function whyUnreachable({ code, cause }: StepError): string {
  const what = 'the database server cannot be reached';
  if (code === undefined) {
    const plain = cause instanceof Error && cause.message === NO_TLS;
    return `${what}: ${plain ? 'it does not support TLS: turn ssl on there' : SILENT}`;
  }
  const advice = ADVICE.find(([pattern]) => pattern.test(code))?.[1];
  return advice === undefined ? `${what} (${code})` : `${what} (${code}): ${advice}`;
}
