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
  .refine(
    (texts) => texts.every((text) => parseBlock(text) !== undefined),
    'not blocks such as 10.0.0.0/8 or fd00::/8, with no bit set after the prefix, and IPv4 not written as IPv6',
  );

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
        'Address that all listeners bind to. If it is not set, they listen on every address, IPv6 and IPv4.',
      ),
    DATA_PORT: settings
      .port(3128)
      .describe(
        'Port of the data listener, for Assistants: CONNECT and stored inputs; 0 means any free port.',
      ),
    CONTROL_PORT: settings
      .port(8080)
      .describe('Port of the control listener, for the operator; 0 means any free port.'),
    METRICS_PORT: settings.port(9090).describe('Port of the Prometheus metrics; 0 means any free port.'),
    TLS_CERT_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        "PEM file of the control listener's certificate, read again when it changes. It requires TLS_KEY_FILE; with both, the listener accepts TLS 1.3 only.",
      ),
    TLS_KEY_FILE: z.string().min(1).optional().describe('PEM file of the private key of that certificate.'),
    PROVISIONER_TOKEN_FILE: settings
      .path('/etc/space/provisioner/token')
      .describe("File with the provisioner's tokens, one or two lines, read again when it changes."),
    OBSERVER_TOKEN_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        'File with the tokens of observers, who may read how often Assistants called which host: one or two lines, read again when it changes. Without it, nobody may.',
      ),
    CUSTODY_KEY_FILE: settings
      .path('/etc/space/keys/custody')
      .describe('File with the ring of keys that seal stored inputs; its mode must be 0440 or stricter.'),
    SERVED_NAMES: z
      .string()
      .default('assistant-egress')
      .transform((text) => words(text.toLowerCase()))
      .describe('Host names by which Assistants call the gateway, separated by commas or spaces.'),
    DENIED_CIDRS: blocks.describe(
      "Address blocks to which the gateway never connects: the cluster's pods, Services and nodes.",
    ),
    ALLOWED_CIDRS: blocks.describe(
      'Address blocks to which the gateway may connect although they are not public.',
    ),
    NAT64_PREFIXES: z
      .string()
      .default('')
      .transform(words)
      .refine((texts) => texts.every(isNat64Prefix), 'not IPv6 prefixes of 32, 40, 48, 56, 64 or 96 bits')
      .describe(
        "IPv6 prefixes of the network's own NAT64 in addition to 64:ff9b::/96. The IPv4 address inside is checked.",
      ),
    FIXED_HOSTS: z
      .string()
      .default('')
      .transform(words)
      .refine((texts) => texts.every((text) => parseFixed(text) !== undefined), 'not HOST=ADDRESS[:PORT]')
      .describe(
        'Addresses of hosts that are not resolved with DNS, and for which the administrator is responsible: HOST=ADDRESS[:PORT], separated by commas or spaces.',
      ),
    UPSTREAM_CA_FILE: z
      .string()
      .min(1)
      .optional()
      .describe('PEM file of certificate authorities of outside hosts, in addition to the public ones.'),
    CONNECTIONS: settings.connections.CONNECTIONS.describe(
      'Most connections that the control listener holds.',
    ),
    CONNECTIONS_PER_ADDRESS: settings.connections.CONNECTIONS_PER_ADDRESS,
    REFUSALS_PER_SECOND: settings
      .count(100)
      .describe(
        'Requests per second to the control listener without a valid credential from one address; further ones are answered 429 before any look-up.',
      ),
    REFUSALS_BURST: settings.count(1_000).describe('Most of them at once, after a pause.'),
    CALLER_CONNECTIONS: settings
      .count(DEFAULT_LIMITS.connections)
      .describe(
        'Most connections to the data listener that one pod of an Assistant may hold; at most ALL_CONNECTIONS.',
      ),
    CALLER_TUNNELS: settings
      .count(DEFAULT_LIMITS.tunnels)
      .describe('Most tunnels that one Assistant may have open.'),
    CALLER_REQUESTS: settings
      .count(DEFAULT_LIMITS.requests)
      .describe('Most requests with stored inputs of one Assistant at the same time.'),
    CALLER_PER_SECOND: settings
      .count(DEFAULT_LIMITS.perSecond)
      .describe('Tunnels and requests that one Assistant may begin per second.'),
    CALLER_BURST: settings.count(DEFAULT_LIMITS.burst).describe('Most of them at once, after a pause.'),
    CALLER_BODY_BYTES: z.coerce
      .number()
      .int()
      .min(1)
      .max(MOST_BODY_BYTES)
      .default(DEFAULT_LIMITS.bodyBytes)
      .describe('Longest body of a request with a stored input, in bytes.'),
    CAPSULE_CONNECTIONS: settings
      .count(DEFAULT_LIMITS.capsuleConnections)
      .describe(
        'Most connections to the data listener that one Capsule may hold; at most half of ALL_CONNECTIONS.',
      ),
    CAPSULE_TUNNELS: settings
      .count(DEFAULT_LIMITS.capsuleTunnels)
      .describe('Most tunnels that one Capsule may have open; at most half of ALL_TUNNELS.'),
    CAPSULE_REQUESTS: settings
      .count(DEFAULT_LIMITS.capsuleRequests)
      .describe(
        'Most requests with stored inputs of one Capsule at the same time; at most half of ALL_REQUESTS.',
      ),
    CAPSULE_PER_SECOND: settings
      .count(DEFAULT_LIMITS.capsulePerSecond)
      .describe(
        'Tunnels and requests that all Assistants of one Capsule may begin per second. The same number of refusals is answered.',
      ),
    CAPSULE_SIGNED_BYTES: signedBytes(DEFAULT_LIMITS.capsuleSignedBytes).describe(
      'Most bytes of bodies to be signed that are in memory for one Capsule; at most half of ALL_SIGNED_BYTES.',
    ),
    ALL_CONNECTIONS: settings
      .count(DEFAULT_LIMITS.allConnections)
      .describe('Most connections to the data listener, for all Assistants together.'),
    ALL_TUNNELS: settings
      .count(DEFAULT_LIMITS.allTunnels)
      .describe('Most tunnels, for all Assistants together.'),
    ALL_REQUESTS: settings
      .count(DEFAULT_LIMITS.allRequests)
      .describe('Most requests with stored inputs at the same time, for all Assistants together.'),
    ALL_SIGNED_BYTES: signedBytes(DEFAULT_LIMITS.allSignedBytes).describe(
      'Most bytes of bodies to be signed that are in memory, for all Assistants together.',
    ),
    ANSWER_SECONDS: seconds(DEFAULT_LIMITS.answerMs).describe(
      'Seconds that a host may take until it has sent the head of its answer.',
    ),
    BODY_IDLE_SECONDS: seconds(DEFAULT_LIMITS.bodyIdleMs).describe(
      'Seconds for which a body may make no progress, in either direction.',
    ),
    TUNNEL_IDLE_SECONDS: seconds(DEFAULT_LIMITS.tunnelIdleMs).describe(
      'Seconds for which a tunnel may be silent.',
    ),
    INPUT_REFLECTIONS: settings
      .count(DEFAULT_LIMITS.reflections, 0)
      .describe(
        'Number of answers that may contain the value of a stored input before the value is no longer used; with 0, such answers are only counted.',
      ),
    REQUEST_HEADERS: z
      .string()
      .default('')
      .transform((text) => words(text.toLowerCase()))
      .refine((names) => names.every(mayBePassed), 'not names of headers that say nothing of who asks')
      .describe(
        'Names of headers that requests with a stored input may have in addition to those that the gateway knows, separated by commas or spaces.',
      ),
    ...settings.leave,
    DRAIN_SECONDS: settings
      .count(20, 0)
      .describe('Seconds that requests and tunnels have to end by themselves when the replica shuts down.'),
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
