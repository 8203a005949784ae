import { randomUUID } from 'node:crypto';
import { z } from 'zod';

const identifier = z
  .string()
  .regex(/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/, 'must be a lowercase name of letters, digits and single hyphens');
const port = z.coerce.number().int().min(0).max(65_535);

const Environment = z
  .object({
    SPACE_NAME: identifier.max(40),
    /** Of Capsules, Assistants and stored inputs: the release's. */
    SPACE_NAMESPACE: z.string().min(1),
    /** Of the operator itself: principals, sealed inputs, probes and Lease. */
    SYSTEM_NAMESPACE: z.string().min(1),
    SERVICES_NAMESPACE: z.string().min(1),
    SANDBOX_RUNTIME_CLASS: z.string().min(1).default('gvisor'),
    SANDBOX_HANDLER: z.string().min(1).default('runsc'),
    SANDBOX_ATTESTER_IMAGE: z.string().min(1),
    /** Names, with commas between them. */
    IMAGE_PULL_SECRETS: z
      .string()
      .transform((names) => names.split(',').filter((name) => name !== ''))
      .default([]),
    SANDBOX_HANDLER_REPORT: z.enum(['node', 'probe']).default('node'),
    SANDBOX_ON_LOSS: z.enum(['keep', 'stop']).default('keep'),
    DB_BROKER_URL: z.url({ protocol: /^https?$/ }),
    /** The Space's authority, PEM: what brokers and PostgreSQL are verified with, by Assistants too. */
    SPACE_CA_FILE: z.string().min(1).optional(),
    DB_PROVISIONER_TOKEN_FILE: z.string().min(1).default('/etc/space/provisioner/token'),
    POD_NAME: z
      .string()
      .regex(/^[a-z0-9.-]+$/)
      .default('operator'),
    POD_UID: z
      .string()
      .regex(/^[a-zA-Z0-9-]+$/)
      .optional(),
    /** Left out in a Space without an object store. */
    OBJECT_STORE_BROKER_URL: z.url({ protocol: /^https?$/ }).optional(),
    OBJECT_STORE_PROVISIONER_TOKEN_FILE: z
      .string()
      .min(1)
      .default('/etc/space/objectstore-provisioner/token'),
    /** PEM; left out where the data plane does not use Capsules' own credentials. */
    GRANT_SIGNING_KEY_FILE: z.string().min(1).optional(),
    EGRESS_PROVISIONER_TOKEN_FILE: z.string().min(1).default('/etc/space/egress-provisioner/token'),
    EGRESS_CONTROL_PORT: port.default(8080),
    /** The name in the gateway's certificate; without it, the gateway is spoken to in the clear. */
    EGRESS_SERVER_NAME: z.string().min(1).optional(),
    /** Where health and metrics are served; every address where nobody said. */
    LISTEN_HOST: z.string().min(1).optional(),
    HEALTH_PORT: port.default(8081),
    METRICS_PORT: port.default(9090),
    LOG_LEVEL: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal']).default('info'),
  })
  .refine((value) => value.SPACE_CA_FILE === undefined || value.DB_BROKER_URL.startsWith('https:'), {
    path: ['DB_BROKER_URL'],
    message: 'must be https where SPACE_CA_FILE is set',
  })
  .refine(
    ({ SPACE_CA_FILE: ca, OBJECT_STORE_BROKER_URL: url }) =>
      ca === undefined || url === undefined || url.startsWith('https:'),
    { path: ['OBJECT_STORE_BROKER_URL'], message: 'must be https where SPACE_CA_FILE is set' },
  );

/** What the operator is told by its environment; see docs/architecture.md. */
export interface Config {
  readonly space: string;
  readonly namespace: string;
  readonly systemNamespace: string;
  readonly servicesNamespace: string;
  readonly runtimeClass: string;
  readonly handler: string;
  readonly attesterImage: string;
  readonly pullSecrets: readonly string[];
  readonly handlerReport: 'node' | 'probe';
  readonly onLoss: 'keep' | 'stop';
  readonly dbBrokerUrl: string;
  readonly dbProvisionerTokenFile: string;
  readonly spaceCaFile: string | undefined;
  /** Which pod this is; a UID of chance where nobody said. */
  readonly pod: { readonly name: string; readonly uid: string };
  readonly objectStoreBrokerUrl: string | undefined;
  readonly objectStoreProvisionerTokenFile: string;
  readonly grantSigningKeyFile: string | undefined;
  readonly egressProvisionerTokenFile: string;
  readonly egressControlPort: number;
  readonly egressServerName: string | undefined;
  readonly listenHost: string | undefined;
  readonly healthPort: number;
  readonly metricsPort: number;
  readonly logLevel: string;
}

export function readConfig(environment: Readonly<Record<string, string | undefined>>): Config {
  const parsed = Environment.safeParse(environment);
  if (!parsed.success) {
    const problems = parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`);
    throw new Error(`the environment is not complete: ${problems.join('; ')}`);
  }
  const value = parsed.data;
  return {
    space: value.SPACE_NAME,
    namespace: value.SPACE_NAMESPACE,
    systemNamespace: value.SYSTEM_NAMESPACE,
    servicesNamespace: value.SERVICES_NAMESPACE,
    runtimeClass: value.SANDBOX_RUNTIME_CLASS,
    handler: value.SANDBOX_HANDLER,
    attesterImage: value.SANDBOX_ATTESTER_IMAGE,
    pullSecrets: value.IMAGE_PULL_SECRETS,
    handlerReport: value.SANDBOX_HANDLER_REPORT,
    onLoss: value.SANDBOX_ON_LOSS,
    dbBrokerUrl: value.DB_BROKER_URL,
    dbProvisionerTokenFile: value.DB_PROVISIONER_TOKEN_FILE,
    spaceCaFile: value.SPACE_CA_FILE,
    pod: { name: value.POD_NAME, uid: value.POD_UID ?? randomUUID() },
    objectStoreBrokerUrl: value.OBJECT_STORE_BROKER_URL,
    objectStoreProvisionerTokenFile: value.OBJECT_STORE_PROVISIONER_TOKEN_FILE,
    grantSigningKeyFile: value.GRANT_SIGNING_KEY_FILE,
    egressProvisionerTokenFile: value.EGRESS_PROVISIONER_TOKEN_FILE,
    egressControlPort: value.EGRESS_CONTROL_PORT,
    egressServerName: value.EGRESS_SERVER_NAME,
    listenHost: value.LISTEN_HOST,
    healthPort: value.HEALTH_PORT,
    metricsPort: value.METRICS_PORT,
    logLevel: value.LOG_LEVEL,
  };
}
