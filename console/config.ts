import {
  type Environment,
  isConnectionsShare,
  isTlsPair,
  NO_CONNECTIONS_SHARE,
  NO_TLS_PAIR,
  readEnvironment,
  settings,
} from '@space/broker-kit';
import * as z from 'zod';

const { port, path } = settings;
const ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';

const isOrigin = (text: string) =>
  URL.canParse(text) && new URL(text).origin === text && /^https?:/.test(text);

/** The environment; each sentence is what docs/configuration.md says of a variable. */
export const schema = z
  .object({
    SPACE_NAME: settings.space,
    SPACE_NAMESPACE: z
      .string()
      .min(1)
      .describe('Namespace of the release, with Capsules, Assistants and stored inputs.'),
    SYSTEM_NAMESPACE: z
      .string()
      .min(1)
      .describe('Namespace of the operator and the console, with the principals of Capsules.'),
    SERVICES_NAMESPACE: z
      .string()
      .min(1)
      .describe('Namespace of brokers, gateway, PostgreSQL and S3 server.'),
    SANDBOX_RUNTIME_CLASS: z
      .string()
      .min(1)
      .default('gvisor')
      .describe("RuntimeClass of every Assistant's pod, the same as the operator's."),
    SANDBOX_HANDLER: z
      .string()
      .min(1)
      .default('runsc')
      .describe('Handler that a node must report to have the sandbox.'),
    ORIGINS: z
      .string()
      .transform((text) => text.split(',').map((origin) => origin.trim()))
      .pipe(z.array(z.string().refine(isOrigin, 'not an origin such as https://localhost:8443')).min(1))
      .describe(
        'Origins at which people reach the console, separated by commas; a request to any other is refused.',
      ),
    LISTEN_HOST: z
      .string()
      .min(1)
      .optional()
      .describe(
        'Address that all listeners bind to. If it is not set, they listen on every address, IPv6 and IPv4.',
      ),
    LISTEN_PORT: port(8443).describe('Port of the pages; 0 means any free port.'),
    METRICS_PORT: port(9090).describe('Port of the Prometheus metrics; 0 means any free port.'),
    ...settings.connections,
    ...settings.leave,
    TLS_CERT_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        "PEM file of the listener's certificate, read again when it changes. It requires TLS_KEY_FILE; with both, the listener accepts TLS 1.3 only.",
      ),
    TLS_KEY_FILE: z.string().min(1).optional().describe('PEM file of the private key of that certificate.'),
    SESSION_KEYS_FILE: path('/etc/space/session/keys').describe(
      'File with the keys of sessions, one on each line, 43 base64url characters each, read again when it changes. The first seals new sessions; all of them open sessions.',
    ),
    SESSION_MINUTES: z.coerce
      .number()
      .int()
      .min(5)
      .max(1_440)
      .default(480)
      .describe('Minutes for which a session lasts, whether or not it is used.'),
    SIGN_INS_PER_MINUTE: settings
      .count(120)
      .describe(
        'Attempts to sign in from one address per minute, each of which makes a request to the API server; further ones are refused for a while.',
      ),
    KUBERNETES_URL: z
      .url({ protocol: /^https$/ })
      .default('https://kubernetes.default.svc')
      .transform((url) => url.replace(/\/$/, ''))
      .describe('URL of the API server.'),
    KUBERNETES_CA_FILE: path(`${ACCOUNT}/ca.crt`).describe(
      'PEM file of the only certificate authority that is accepted for the API server, read again when it changes.',
    ),
    KUBERNETES_TOKEN_FILE: path(`${ACCOUNT}/token`).describe(
      "File with the token of the console's ServiceAccount, read again when it changes.",
    ),
    OBJECT_STORE_URL: z
      .url({ protocol: /^https?$/ })
      .transform((url) => url.replace(/\/$/, ''))
      .optional()
      .describe(
        "URL of the object-storage broker's control listener. Without it, there are no pages of credential sets.",
      ),
    OBJECT_STORE_CA_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        'PEM file of the only certificate authority that is accepted for the broker, read again when it changes. If it is set, plain HTTP is refused.',
      ),
    EGRESS_URL: z
      .url({ protocol: /^https?$/ })
      .optional()
      .describe(
        "URL of the egress gateway's control listeners; its host name has the addresses of all replicas. Without it, no page shows calls.",
      ),
    EGRESS_SERVER_NAME: z.string().min(1).optional().describe('Name in their certificate.'),
    EGRESS_CA_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        'PEM file of the only certificate authority that is accepted for the gateway, read again when it changes. If it is set, plain HTTP is refused.',
      ),
    EGRESS_OBSERVER_TOKEN_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        "File with the observer's token for the gateway, which permits no change; read again when it changes.",
      ),
    CERTIFICATES: z
      .string()
      .default('{}')
      .transform((text, context) => {
        try {
          return JSON.parse(text) as unknown;
        } catch {
          context.addIssue('is no JSON');
          return z.NEVER;
        }
      })
      .pipe(z.record(z.string(), z.strictObject({ secret: z.string().min(1), yours: z.boolean() })))
      .describe(
        "Certificates of the Space's services, as JSON: for each name of a Service the Secret with its certificate, the namespace of the Secret, and whether you provide it yourself.",
      ),
    CERTIFICATES_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        'JSON file in which the keys program writes when each certificate that it signed expires; it may be missing.',
      ),
    OIDC_ISSUER: z
      .url({ protocol: /^https$/ })
      .optional()
      .describe(
        'URL of an OpenID Connect issuer with which people may sign in. Without it, they can sign in only with a Kubernetes token.',
      ),
    OIDC_CLIENT_ID: z
      .string()
      .min(1)
      .optional()
      .describe('ID of the client as which the issuer knows the console.'),
    OIDC_CLIENT_SECRET_FILE: z
      .string()
      .min(1)
      .optional()
      .describe('File with the secret of that client, if it has one; read again when it changes.'),
    OIDC_CA_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        'PEM file of the only certificate authority that is accepted for the issuer, instead of the public ones; read again when it changes.',
      ),
    OIDC_SCOPE: z.string().min(1).default('openid').describe('Scopes that the console requests.'),
    OIDC_USER_CLAIM: z
      .string()
      .min(1)
      .default('sub')
      .describe('Claim of the ID token that has the name of the person.'),
    OIDC_GROUPS_CLAIM: z
      .string()
      .min(1)
      .default('groups')
      .describe('Claim of the ID token that lists groups.'),
    OIDC_PREFIX: z
      .string()
      .default('oidc:')
      .describe(
        'Prefix of the names of persons and groups at the API server. Names that begin with system: are always refused.',
      ),
    OIDC_GROUPS: z
      .string()
      .default('')
      .transform((text) => text.split(',').filter((group) => group !== ''))
      .describe(
        'Groups that are passed on to the API server, without the prefix, separated by commas; others are left out.',
      ),
    LOG_LEVEL: settings.logLevel,
  })
  .refine(
    ({ OIDC_ISSUER: issuer, OIDC_CLIENT_ID: client }) => (issuer === undefined) === (client === undefined),
    {
      path: ['OIDC_CLIENT_ID'],
      message: 'is set together with OIDC_ISSUER',
    },
  )
  .refine(isConnectionsShare, NO_CONNECTIONS_SHARE)
  .refine(isTlsPair, NO_TLS_PAIR)
  .refine(
    ({ OBJECT_STORE_URL: url, OBJECT_STORE_CA_FILE: ca }) =>
      ca === undefined || url === undefined || url.startsWith('https:'),
    { path: ['OBJECT_STORE_URL'], message: 'is asked by https where OBJECT_STORE_CA_FILE is set' },
  )
  .refine(
    ({ EGRESS_URL: url, EGRESS_OBSERVER_TOKEN_FILE: token }) => (url === undefined) === (token === undefined),
    { path: ['EGRESS_OBSERVER_TOKEN_FILE'], message: 'is set together with EGRESS_URL' },
  )
  .refine(
    ({ EGRESS_URL: url, EGRESS_CA_FILE: ca }) =>
      ca === undefined || url === undefined || url.startsWith('https:'),
    { path: ['EGRESS_URL'], message: 'is asked by https where EGRESS_CA_FILE is set' },
  );

export type Config = z.infer<typeof schema>;

export const readConfig = (environment: Environment): Config => readEnvironment(schema, environment);
