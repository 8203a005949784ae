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
      .describe('Namespace of Capsules and Assistants, which is that of the Helm release.'),
    SYSTEM_NAMESPACE: z
      .string()
      .min(1)
      .describe("Namespace of the Space's own programs and of the principals of its Capsules."),
    SERVICES_NAMESPACE: z.string().min(1).describe('Namespace of brokers, gateway and servers.'),
    SANDBOX_RUNTIME_CLASS: z
      .string()
      .min(1)
      .default('gvisor')
      .describe("RuntimeClass of every Assistant's pod, as the operator is told it."),
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
        'Addresses at which people reach the console, separated by commas; a request to any other is refused.',
      ),
    LISTEN_HOST: z
      .string()
      .min(1)
      .optional()
      .describe(
        'Address that all listeners are bound to; every address, IPv6 and IPv4, where it is not set.',
      ),
    LISTEN_PORT: port(8443).describe('Port of the pages; 0 takes a free one.'),
    METRICS_PORT: port(9090).describe('Port of the Prometheus metrics; 0 takes a free one.'),
    ...settings.connections,
    ...settings.leave,
    TLS_CERT_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        "PEM of the listener's certificate, taken anew when it changes; it is set together with TLS_KEY_FILE, and the listener then speaks TLS 1.3 only.",
      ),
    TLS_KEY_FILE: z.string().min(1).optional().describe('PEM of the key of that certificate.'),
    SESSION_KEYS_FILE: path('/etc/space/session/keys').describe(
      'Keys that seal sessions, one a line, 43 base64url characters each; the first seals, all open, and the file is read again when it changes.',
    ),
    SESSION_MINUTES: z.coerce
      .number()
      .int()
      .min(5)
      .max(1_440)
      .default(480)
      .describe('How long a session lasts, whatever is done in it.'),
    SIGN_INS_PER_MINUTE: settings
      .count(120)
      .describe(
        'Attempts to sign in from one address, each of which asks the API server; more have to wait.',
      ),
    KUBERNETES_URL: z
      .url({ protocol: /^https$/ })
      .default('https://kubernetes.default.svc')
      .transform((url) => url.replace(/\/$/, ''))
      .describe('The API server.'),
    KUBERNETES_CA_FILE: path(`${ACCOUNT}/ca.crt`).describe(
      'PEM of the only authority that the API server is verified with, taken anew when it changes.',
    ),
    KUBERNETES_TOKEN_FILE: path(`${ACCOUNT}/token`).describe(
      "Token of the console's own account, read again when it changes.",
    ),
    OBJECT_STORE_URL: z
      .url({ protocol: /^https?$/ })
      .transform((url) => url.replace(/\/$/, ''))
      .optional()
      .describe(
        'Control listener of the object-storage broker; without it there are no pages of credential sets.',
      ),
    OBJECT_STORE_CA_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        'PEM of the only authority that the broker is verified with, taken anew when it changes; with it, plain HTTP is refused.',
      ),
    EGRESS_URL: z
      .url({ protocol: /^https?$/ })
      .optional()
      .describe(
        'Control listeners of the egress gateway, by a name that has the address of each replica; without it no page tells of calls.',
      ),
    EGRESS_SERVER_NAME: z.string().min(1).optional().describe('Name that their certificate is for.'),
    EGRESS_CA_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        'PEM of the only authority that the gateway is verified with, taken anew when it changes; with it, plain HTTP is refused.',
      ),
    EGRESS_OBSERVER_TOKEN_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        'Token with which the gateway is asked, and nothing can be changed; read again when it changes.',
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
        "The Space's services that have a certificate, as JSON: by the name of its Service, the Secret that has it, with its namespace, and whether that is the user's own.",
      ),
    CERTIFICATES_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        'File in which the program of keys tells when each certificate ends that it signed, as JSON; it may be missing.',
      ),
    OIDC_ISSUER: z
      .url({ protocol: /^https$/ })
      .optional()
      .describe('Issuer by whose word people may sign in beside tokens; without it there is none.'),
    OIDC_CLIENT_ID: z.string().min(1).optional().describe('What the issuer knows the console by.'),
    OIDC_CLIENT_SECRET_FILE: z
      .string()
      .min(1)
      .optional()
      .describe('Secret of that client, where it has one; read again when it changes.'),
    OIDC_CA_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        'PEM of the only authority that the issuer is verified with, in place of the public ones, taken anew when it changes.',
      ),
    OIDC_SCOPE: z.string().min(1).default('openid').describe('Scopes that are asked for.'),
    OIDC_USER_CLAIM: z
      .string()
      .min(1)
      .default('sub')
      .describe('Claim of the ID token that is the name of the person.'),
    OIDC_GROUPS_CLAIM: z.string().min(1).default('groups').describe('Claim that lists groups.'),
    OIDC_PREFIX: z
      .string()
      .default('oidc:')
      .describe(
        'Before each name of a person or group as the API server is to know them; names that begin with system: are refused all the same.',
      ),
    OIDC_GROUPS: z
      .string()
      .default('')
      .transform((text) => text.split(',').filter((group) => group !== ''))
      .describe(
        'Groups, without the prefix, that a person may be in, separated by commas; others are left out.',
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
