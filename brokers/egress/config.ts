import {
  type Environment,
  isTlsPair,
  NO_TLS_PAIR,
  parseBlock,
  readEnvironment,
  settings,
} from '@space/broker-kit';
import { z } from 'zod';
import { parseFixed } from './fixed.ts';

const words = (text: string): string[] => text.split(/[\s,]+/).filter((word) => word !== '');
const blocks = z
  .string()
  .default('')
  .transform(words)
  .refine((texts) => texts.every((text) => parseBlock(text) !== undefined), 'not blocks such as 10.0.0.0/8');

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
    /** `HOST=ADDRESS[:PORT]`, separated by commas or spaces: addresses that the administrator answers for. */
    FIXED_HOSTS: z
      .string()
      .default('')
      .transform(words)
      .refine((texts) => texts.every((text) => parseFixed(text) !== undefined), 'not HOST=ADDRESS[:PORT]'),
    /** PEM of authorities that upstreams may be certified by, beside the public ones. */
    UPSTREAM_CA_FILE: z.string().min(1).optional(),
    LOG_LEVEL: settings.logLevel,
  })
  .refine(isTlsPair, NO_TLS_PAIR);

export type Config = z.infer<typeof schema>;

export const readConfig = (environment: Environment): Config => readEnvironment(schema, environment);
