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

/** In which the largest body that is signed has room. */
const signedBytes = (fallback: number) =>
  z.coerce.number().int().min(DEFAULT_LIMITS.signedBodyBytes).max(MOST_BODY_BYTES).default(fallback);

/** Milliseconds by default, told in seconds; within the hour that a request may take. */
const seconds = (fallbackMs: number) =>
  z.coerce
    .number()
    .int()
    .min(1)
    .max(3_600)
    .default(fallbackMs / 1_000);

type Shared = 'CONNECTIONS' | 'TUNNELS' | 'REQUESTS' | 'SIGNED_BYTES';

/** Otherwise one Capsule could take all, and starve the others. */
const isShared =
  (of: Shared) =>
  (config: Readonly<Record<`${'CAPSULE' | 'ALL'}_${Shared}`, number>>): boolean =>
    config[`CAPSULE_${of}`] * 2 <= config[`ALL_${of}`];

const notShared = (of: Shared) => ({
  path: [`CAPSULE_${of}`],
  message: `CAPSULE_${of} is at most half of ALL_${of}`,
});

const schema = z
  .object({
    SPACE_NAME: settings.space,
    LISTEN_HOST: z.string().min(1).default('0.0.0.0'),
    /** For Assistants: CONNECT and stored inputs. */
    DATA_PORT: settings.port(3128),
    /** For the operator. */
    CONTROL_PORT: settings.port(8080),
    METRICS_PORT: settings.port(9090),
    /** Both or neither: the control listener then speaks TLS only. */
    TLS_CERT_FILE: z.string().min(1).optional(),
    TLS_KEY_FILE: z.string().min(1).optional(),
    PROVISIONER_TOKEN_FILE: settings.path('/etc/space/provisioner/token'),
    /** The ring that seals stored inputs. */
    CUSTODY_KEY_FILE: settings.path('/etc/space/keys/custody'),
    /** Names by which Assistants call. */
    SERVED_NAMES: z
      .string()
      .default('assistant-egress')
      .transform((text) => words(text.toLowerCase())),
    /** Blocks that are never dialled: the cluster's pods, Services and nodes. */
    DENIED_CIDRS: blocks,
    /** Blocks that may be dialled though they are not public. */
    ALLOWED_CIDRS: blocks,
    /** By which the network's own NAT64 reaches IPv4, beside 64:ff9b::/96. */
    NAT64_PREFIXES: z
      .string()
      .default('')
      .transform(words)
      .refine((texts) => texts.every(isNat64Prefix), 'not IPv6 prefixes of 32, 40, 48, 56, 64 or 96 bits'),
    /** `HOST=ADDRESS[:PORT]`, separated by commas or spaces: addresses that the administrator answers for. */
    FIXED_HOSTS: z
      .string()
      .default('')
      .transform(words)
      .refine((texts) => texts.every((text) => parseFixed(text) !== undefined), 'not HOST=ADDRESS[:PORT]'),
    /** PEM of authorities that upstreams may be certified by, beside the public ones. */
    UPSTREAM_CA_FILE: z.string().min(1).optional(),
    /** Of the control listener. */
    ...settings.connections,
    REFUSALS_PER_SECOND: settings.count(100),
    REFUSALS_BURST: settings.count(1_000),
    /** What one Assistant may use of this replica. */
    CALLER_CONNECTIONS: settings.count(DEFAULT_LIMITS.connections),
    CALLER_TUNNELS: settings.count(DEFAULT_LIMITS.tunnels),
    CALLER_REQUESTS: settings.count(DEFAULT_LIMITS.requests),
    CALLER_PER_SECOND: settings.count(DEFAULT_LIMITS.perSecond),
    CALLER_BURST: settings.count(DEFAULT_LIMITS.burst),
    CALLER_BODY_BYTES: z.coerce.number().int().min(1).max(MOST_BODY_BYTES).default(DEFAULT_LIMITS.bodyBytes),
    /** What one Capsule may use of it, … */
    CAPSULE_CONNECTIONS: settings.count(DEFAULT_LIMITS.capsuleConnections),
    CAPSULE_TUNNELS: settings.count(DEFAULT_LIMITS.capsuleTunnels),
    CAPSULE_REQUESTS: settings.count(DEFAULT_LIMITS.capsuleRequests),
    CAPSULE_PER_SECOND: settings.count(DEFAULT_LIMITS.capsulePerSecond),
    CAPSULE_SIGNED_BYTES: signedBytes(DEFAULT_LIMITS.capsuleSignedBytes),
    /** … and all together. */
    ALL_CONNECTIONS: settings.count(DEFAULT_LIMITS.allConnections),
    ALL_TUNNELS: settings.count(DEFAULT_LIMITS.allTunnels),
    ALL_REQUESTS: settings.count(DEFAULT_LIMITS.allRequests),
    ALL_SIGNED_BYTES: signedBytes(DEFAULT_LIMITS.allSignedBytes),
    /** Until the head of a host's answer; how long a body, and a tunnel, may be still. */
    ANSWER_SECONDS: seconds(DEFAULT_LIMITS.answerMs),
    BODY_IDLE_SECONDS: seconds(DEFAULT_LIMITS.bodyIdleMs),
    TUNNEL_IDLE_SECONDS: seconds(DEFAULT_LIMITS.tunnelIdleMs),
    /** Answers that tell the value of a stored input, until it is not used any more; with 0 they are counted alone. */
    INPUT_REFLECTIONS: settings.count(DEFAULT_LIMITS.reflections, 0),
    /** Headers of requests with a stored input that are passed on beside those that the gateway knows. */
    REQUEST_HEADERS: z
      .string()
      .default('')
      .transform((text) => words(text.toLowerCase()))
      .refine((names) => names.every(mayBePassed), 'not names of headers that say nothing of who asks'),
    /** So long what is open may end by itself when the replica is told to end. */
    DRAIN_SECONDS: settings.count(20, 0),
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

/** Shares and patience, as they are configured. */
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
