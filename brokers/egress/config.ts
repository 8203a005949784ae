import {
  type Environment,
  isConnectionsShare,
  isNat64Prefix,
  isTlsPair,
  NO_CONNECTIONS_SHARE,
  NO_TLS_PAIR,
  parseBlock,
  parseFixed,
  readEnvironment,
  settings,
} from '@space/broker-kit';
import { z } from 'zod';
import { mayBePassed } from './core/headers.ts';
import { type DataLimits, DEFAULT_LIMITS } from './data/limits.ts';

const words = (text: string): string[] => text.split(/[\s,]+/).filter((word) => word !== '');
const blocks = z
  .string()
  .default('')
  .transform(words)
  .refine((texts) => texts.every((text) => parseBlock(text) !== undefined), 'not blocks such as 10.0.0.0/8');

const MOST_BODY_BYTES = 1024 ** 4;

/** A number of bytes that must hold at least one body of the greatest size. */
const signedBytes = (fallback: number) =>
  z.coerce.number().int().min(DEFAULT_LIMITS.signedBodyBytes).max(MOST_BODY_BYTES).default(fallback);

/** A duration that is configured in seconds and used in milliseconds, at most the hour of a request. */
const seconds = (fallbackMs: number) =>
  z.coerce
    .number()
    .int()
    .min(1)
    .max(3_600)
    .default(fallbackMs / 1_000);

type Shared = 'CONNECTIONS' | 'TUNNELS' | 'REQUESTS' | 'SIGNED_BYTES';

/** For a schema's refinement: one Capsule may never have everything. */
const isShared =
  (of: Shared) =>
  (config: Readonly<Record<`${'CAPSULE' | 'ALL'}_${Shared}`, number>>): boolean =>
    config[`CAPSULE_${of}`] * 2 <= config[`ALL_${of}`];

const notShared = (of: Shared) => ({
  path: [`CAPSULE_${of}`],
  message: `CAPSULE_${of} is at most half of ALL_${of}`,
});

/** The environment; each sentence is what docs/configuration.md says of a variable. */
export const schema = z
  .object({
    SPACE_NAME: settings.space,
    LISTEN_HOST: z
      .string()
      .min(1)
      .optional()
      .describe(
        'Address that all listeners are bound to; every address, IPv6 and IPv4, where it is not set.',
      ),
    DATA_PORT: settings
      .port(3128)
      .describe('Port of the data listener, for Assistants: CONNECT and stored inputs; 0 takes a free one.'),
    CONTROL_PORT: settings
      .port(8080)
      .describe('Port of the control listener, for the operator; 0 takes a free one.'),
    METRICS_PORT: settings.port(9090).describe('Port of the Prometheus metrics; 0 takes a free one.'),
    TLS_CERT_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        "PEM of the control listener's certificate, taken anew when it changes; it is set together with TLS_KEY_FILE, and the listener then speaks TLS 1.3 only.",
      ),
    TLS_KEY_FILE: z.string().min(1).optional().describe('PEM of the key of that certificate.'),
    PROVISIONER_TOKEN_FILE: settings
      .path('/etc/space/provisioner/token')
      .describe("The provisioner's tokens, one or two lines, read again when the file changes."),
    OBSERVER_TOKEN_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        'Tokens of who may ask how often Assistants called which host, one or two lines, read again when the file changes; without it nobody may.',
      ),
    CUSTODY_KEY_FILE: settings
      .path('/etc/space/keys/custody')
      .describe('Ring of keys that stored inputs are sealed with; its mode is 0440 or stricter.'),
    SERVED_NAMES: z
      .string()
      .default('assistant-egress')
      .transform((text) => words(text.toLowerCase()))
      .describe('Names, separated by commas or spaces, by which Assistants call the gateway.'),
    DENIED_CIDRS: blocks.describe(
      "Address blocks that are never dialled: the cluster's pods, Services and nodes.",
    ),
    ALLOWED_CIDRS: blocks.describe('Address blocks that may be dialled though they are not public.'),
    NAT64_PREFIXES: z
      .string()
      .default('')
      .transform(words)
      .refine((texts) => texts.every(isNat64Prefix), 'not IPv6 prefixes of 32, 40, 48, 56, 64 or 96 bits')
      .describe(
        "IPv6 prefixes by which the network's own NAT64 reaches IPv4, beside 64:ff9b::/96; what they carry is judged.",
      ),
    FIXED_HOSTS: z
      .string()
      .default('')
      .transform(words)
      .refine((texts) => texts.every((text) => parseFixed(text) !== undefined), 'not HOST=ADDRESS[:PORT]')
      .describe(
        'HOST=ADDRESS[:PORT], separated by commas or spaces: addresses of hosts that DNS is not asked for, and that the administrator answers for.',
      ),
    UPSTREAM_CA_FILE: z
      .string()
      .min(1)
      .optional()
      .describe('PEM of authorities that outside hosts may be certified by, beside the public ones.'),
    CONNECTIONS: settings.connections.CONNECTIONS.describe(
      'Connections that the control listener holds in all.',
    ),
    CONNECTIONS_PER_ADDRESS: settings.connections.CONNECTIONS_PER_ADDRESS,
    REFUSALS_PER_SECOND: settings
      .count(100)
      .describe(
        'Requests without a right credential that one address may make to the control listener in a second; beyond them it is answered 429 before any look-up.',
      ),
    REFUSALS_BURST: settings.count(1_000).describe('The same at once, after a pause.'),
    CALLER_CONNECTIONS: settings
      .count(DEFAULT_LIMITS.connections)
      .describe(
        'Connections to the data listener that one pod of an Assistant may hold; at most ALL_CONNECTIONS.',
      ),
    CALLER_TUNNELS: settings
      .count(DEFAULT_LIMITS.tunnels)
      .describe('Tunnels that one Assistant may have open.'),
    CALLER_REQUESTS: settings
      .count(DEFAULT_LIMITS.requests)
      .describe('Requests with stored inputs that one Assistant may have at one time.'),
    CALLER_PER_SECOND: settings
      .count(DEFAULT_LIMITS.perSecond)
      .describe('Tunnels and requests that one Assistant may begin in a second.'),
    CALLER_BURST: settings.count(DEFAULT_LIMITS.burst).describe('The same at once, after a pause.'),
    CALLER_BODY_BYTES: z.coerce
      .number()
      .int()
      .min(1)
      .max(MOST_BODY_BYTES)
      .default(DEFAULT_LIMITS.bodyBytes)
      .describe('The longest body of a request with a stored input.'),
    CAPSULE_CONNECTIONS: settings
      .count(DEFAULT_LIMITS.capsuleConnections)
      .describe(
        'Connections to the data listener that one Capsule may hold; at most half of ALL_CONNECTIONS.',
      ),
    CAPSULE_TUNNELS: settings
      .count(DEFAULT_LIMITS.capsuleTunnels)
      .describe('Tunnels that one Capsule may have open; at most half of ALL_TUNNELS.'),
    CAPSULE_REQUESTS: settings
      .count(DEFAULT_LIMITS.capsuleRequests)
      .describe(
        'Requests with stored inputs that one Capsule may have at one time; at most half of ALL_REQUESTS.',
      ),
    CAPSULE_PER_SECOND: settings
      .count(DEFAULT_LIMITS.capsulePerSecond)
      .describe(
        'Tunnels and requests that all Assistants of one Capsule may begin in a second; as many refusals are answered.',
      ),
    CAPSULE_SIGNED_BYTES: signedBytes(DEFAULT_LIMITS.capsuleSignedBytes).describe(
      'Bytes of bodies to be signed that one Capsule may have in memory; at most half of ALL_SIGNED_BYTES.',
    ),
    ALL_CONNECTIONS: settings
      .count(DEFAULT_LIMITS.allConnections)
      .describe('Connections to the data listener of all Assistants together.'),
    ALL_TUNNELS: settings.count(DEFAULT_LIMITS.allTunnels).describe('Tunnels of all Assistants together.'),
    ALL_REQUESTS: settings
      .count(DEFAULT_LIMITS.allRequests)
      .describe('Requests with stored inputs of all Assistants together at one time.'),
    ALL_SIGNED_BYTES: signedBytes(DEFAULT_LIMITS.allSignedBytes).describe(
      'Bytes of bodies to be signed that all Assistants together may have in memory.',
    ),
    ANSWER_SECONDS: seconds(DEFAULT_LIMITS.answerMs).describe(
      'How long a host may take until the head of its answer.',
    ),
    BODY_IDLE_SECONDS: seconds(DEFAULT_LIMITS.bodyIdleMs).describe(
      'How long a body may stand still, in either direction.',
    ),
    TUNNEL_IDLE_SECONDS: seconds(DEFAULT_LIMITS.tunnelIdleMs).describe('How long a tunnel may be silent.'),
    INPUT_REFLECTIONS: settings
      .count(DEFAULT_LIMITS.reflections, 0)
      .describe(
        'Answers in which a host tells the value of a stored input, until the value is not used any more; with 0 they are only counted.',
      ),
    REQUEST_HEADERS: z
      .string()
      .default('')
      .transform((text) => words(text.toLowerCase()))
      .refine((names) => names.every(mayBePassed), 'not names of headers that say nothing of who asks')
      .describe(
        'Names of headers, separated by commas or spaces, that requests with a stored input may have beside those that the gateway knows.',
      ),
    ...settings.leave,
    DRAIN_SECONDS: settings
      .count(20, 0)
      .describe('How long requests and tunnels may end by themselves when the replica is told to end.'),
    LOG_LEVEL: settings.logLevel,
  })
  .refine(isTlsPair, NO_TLS_PAIR)
  .refine(isConnectionsShare, NO_CONNECTIONS_SHARE)
  .refine((config) => config.CALLER_CONNECTIONS <= config.ALL_CONNECTIONS, {
    path: ['CALLER_CONNECTIONS'],
    message: 'CALLER_CONNECTIONS is at most ALL_CONNECTIONS',
  })
  .refine(isShared('CONNECTIONS'), notShared('CONNECTIONS'))
  .refine(isShared('TUNNELS'), notShared('TUNNELS'))
  .refine(isShared('REQUESTS'), notShared('REQUESTS'))
  .refine(isShared('SIGNED_BYTES'), notShared('SIGNED_BYTES'));

export type Config = z.infer<typeof schema>;

export const readConfig = (environment: Environment): Config => readEnvironment(schema, environment);

/** The limits of shares and times in the configuration. */
export const limitsIn = (config: Config): Partial<DataLimits> => ({
  connections: config.CALLER_CONNECTIONS,
  tunnels: config.CALLER_TUNNELS,
  requests: config.CALLER_REQUESTS,
  perSecond: config.CALLER_PER_SECOND,
  burst: config.CALLER_BURST,
  bodyBytes: config.CALLER_BODY_BYTES,
  capsuleConnections: config.CAPSULE_CONNECTIONS,
  capsuleTunnels: config.CAPSULE_TUNNELS,
  capsulePerSecond: config.CAPSULE_PER_SECOND,
  capsuleRequests: config.CAPSULE_REQUESTS,
  allConnections: config.ALL_CONNECTIONS,
  allTunnels: config.ALL_TUNNELS,
  allRequests: config.ALL_REQUESTS,
  capsuleSignedBytes: config.CAPSULE_SIGNED_BYTES,
  allSignedBytes: config.ALL_SIGNED_BYTES,
  answerMs: config.ANSWER_SECONDS * 1_000,
  bodyIdleMs: config.BODY_IDLE_SECONDS * 1_000,
  tunnelIdleMs: config.TUNNEL_IDLE_SECONDS * 1_000,
  reflections: config.INPUT_REFLECTIONS,
});
