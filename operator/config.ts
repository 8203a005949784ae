import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { readGrace } from './grace.ts';
import type { DatabaseServer } from './names.ts';

const identifier = z
  .string()
  .regex(/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/, 'must be a lowercase name of letters, digits and single hyphens');
const port = z.coerce.number().int().min(0).max(65_535);

const databaseServer = z.strictObject({
  host: z.string().min(1),
  addresses: z.array(z.union([z.ipv4(), z.ipv6()])).min(1),
  port: z.int().min(1).max(65_535),
  egress: z.array(z.looseObject({ to: z.array(z.looseObject({})).min(1) })).min(1),
});

/** A rule without `to` would let Assistants reach everything, so it is refused, as is a text that is not JSON. */
function readServer(text: string | undefined, context: z.RefinementCtx): DatabaseServer | undefined {
  if (text === undefined) return undefined;
  try {
    return databaseServer.parse(JSON.parse(text));
  } catch {
    context.addIssue({ code: 'custom', message: 'must be JSON with host, addresses, port and egress' });
    return z.NEVER;
  }
}

function readServers(text: string, context: z.RefinementCtx): readonly DatabaseServer[] {
  try {
    return z.array(databaseServer).parse(JSON.parse(text));
  } catch {
    const message = 'must be a JSON list of servers, each with host, addresses, port and egress';
    context.addIssue({ code: 'custom', message });
    return z.NEVER;
  }
}

/** The environment; each sentence is what docs/configuration.md says of a variable. */
export const schema = z
  .object({
    SPACE_NAME: identifier.max(40).describe('Name of the Space, which is the name of its Helm release.'),
    SPACE_NAMESPACE: z
      .string()
      .min(1)
      .describe("The release's namespace, which has Capsules, Assistants and stored inputs."),
    SYSTEM_NAMESPACE: z
      .string()
      .min(1)
      .describe("The operator's own namespace, which has principals, sealed inputs, probes and the Lease."),
    SERVICES_NAMESPACE: z
      .string()
      .min(1)
      .describe('Namespace of brokers, gateway, PostgreSQL and S3 server.'),
    SANDBOX_RUNTIME_CLASS: z
      .string()
      .min(1)
      .default('gvisor')
      .describe("RuntimeClass of every Assistant's pod."),
    SANDBOX_HANDLER: z
      .string()
      .min(1)
      .default('runsc')
      .describe('Handler that the RuntimeClass must name and a node must report.'),
    SANDBOX_ATTESTER_IMAGE: z
      .string()
      .min(1)
      .describe(
        "Image of the attester, the first container of every Assistant's pod and the only one of a probe.",
      ),
    IMAGE_PULL_SECRETS: z
      .string()
      .default('')
      .transform((names) => names.split(',').filter((name) => name !== ''))
      .describe(
        "Names of Secrets of the operator's namespace, separated by commas, that attester and Assistants are pulled with.",
      ),
    SANDBOX_HANDLER_REPORT: z
      .enum(['node', 'probe'])
      .default('node')
      .describe(
        'Whether a node must report the handler itself, or a passed probe may stand in where a node reports no handlers at all.',
      ),
    SANDBOX_ON_LOSS: z
      .enum(['keep', 'stop'])
      .default('keep')
      .describe('Whether Assistants that run go on or are stopped when the sandbox is found lost.'),
    RETENTION_GRACE: z
      .string()
      .default('0')
      .refine(
        (text) => readGrace(text) !== undefined,
        'must be 0, or a number with s, m, h or d, at most 366d',
      )
      .describe(
        'How long the data of a Capsule or Assistant outlives its deletion, before the brokers are told to drop it: `0`, or a number with its unit, as `72h`; at most `366d`.',
      ),
    DB_BROKER_URL: z
      .url({ protocol: /^https?$/ })
      .describe("The database broker's control listener; it must be https where SPACE_CA_FILE is set."),
    SPACE_CA_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        "PEM of the Space's authority, the only one that brokers, gateway and PostgreSQL are then verified with, by Assistants too.",
      ),
    DATABASE_SERVER: z
      .string()
      .min(1)
      .optional()
      .transform(readServer)
      .describe(
        'A PostgreSQL that the Space does not run, as JSON: host, addresses, port, and egress, the rules of a NetworkPolicy that let Assistants to it.',
      ),
    FURTHER_DATABASE_SERVERS: z
      .string()
      .default('[]')
      .transform(readServers)
      .describe(
        'The PostgreSQL servers that Capsules may be placed on beside the first, as a JSON list of what DATABASE_SERVER is.',
      ),
    DATABASE_CA_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        'PEM of the authorities of all PostgreSQL servers that the Space does not run, with which Assistants verify those alone.',
      ),
    DB_PROVISIONER_TOKEN_FILE: z
      .string()
      .min(1)
      .default('/etc/space/provisioner/token')
      .describe("The provisioner's token for the database broker."),
    POD_NAME: z
      .string()
      .regex(/^[a-z0-9.-]+$/)
      .default('operator')
      .describe("Name of the operator's pod, which is written into the Lease."),
    POD_UID: z
      .string()
      .regex(/^[a-zA-Z0-9-]+$/)
      .optional()
      .describe(
        "UID of that pod, by which a standby sees that the Lease's holder is gone; a random one where it is not set.",
      ),
    OBJECT_STORE_BROKER_URL: z
      .url({ protocol: /^https?$/ })
      .optional()
      .describe(
        "The object-storage broker's control listener, https where SPACE_CA_FILE is set; without it the Space has no object store.",
      ),
    OBJECT_STORE_PROVISIONER_TOKEN_FILE: z
      .string()
      .min(1)
      .default('/etc/space/objectstore-provisioner/token')
      .describe("The provisioner's token for the object-storage broker."),
    CONSOLE_ROLE: z
      .string()
      .min(1)
      .optional()
      .describe(
        "Role of the operator's namespace that it keeps the names of Capsules' object-store principals in, for the console; without it nobody is let read them.",
      ),
    GRANT_SIGNING_KEY_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        "PEM of the Ed25519 key that grants for Capsules' own credentials are signed with; without it no Assistant gets a grant.",
      ),
    EGRESS_PROVISIONER_TOKEN_FILE: z
      .string()
      .min(1)
      .default('/etc/space/egress-provisioner/token')
      .describe("The provisioner's token for the egress gateway."),
    EGRESS_CONTROL_PORT: port.default(8080).describe('Port of the control listener of each gateway pod.'),
    EGRESS_SERVER_NAME: z
      .string()
      .min(1)
      .optional()
      .describe("Name in the gateway's certificate; without it the gateway is spoken to in the clear."),
    LISTEN_HOST: z
      .string()
      .min(1)
      .optional()
      .describe('Address that health and metrics are served on; every address where it is not set.'),
    HEALTH_PORT: port.default(8081).describe('Port of /healthz and /readyz.'),
    METRICS_PORT: port.default(9090).describe('Port of the Prometheus metrics.'),
    LOG_LEVEL: z
      .enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal'])
      .default('info')
      .describe('The least severe level that is logged.'),
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

/** The operator's configuration, from its environment; see docs/configuration.md. */
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
  readonly graceMs: number;
  readonly dbBrokerUrl: string;
  readonly dbProvisionerTokenFile: string;
  readonly spaceCaFile: string | undefined;
  /** Undefined where the Space runs its PostgreSQL itself. */
  readonly databaseServer: DatabaseServer | undefined;
  readonly furtherDatabaseServers: readonly DatabaseServer[];
  readonly databaseCaFile: string | undefined;
  /** This pod; its UID is random if the environment has none. */
  readonly pod: { readonly name: string; readonly uid: string };
  readonly objectStoreBrokerUrl: string | undefined;
  readonly objectStoreProvisionerTokenFile: string;
  readonly consoleRole: string | undefined;
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
  const parsed = schema.safeParse(environment);
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
    graceMs: readGrace(value.RETENTION_GRACE) ?? 0,
    dbBrokerUrl: value.DB_BROKER_URL,
    dbProvisionerTokenFile: value.DB_PROVISIONER_TOKEN_FILE,
    spaceCaFile: value.SPACE_CA_FILE,
    databaseServer: value.DATABASE_SERVER,
    furtherDatabaseServers: value.FURTHER_DATABASE_SERVERS,
    databaseCaFile: value.DATABASE_CA_FILE,
    pod: { name: value.POD_NAME, uid: value.POD_UID ?? randomUUID() },
    objectStoreBrokerUrl: value.OBJECT_STORE_BROKER_URL,
    objectStoreProvisionerTokenFile: value.OBJECT_STORE_PROVISIONER_TOKEN_FILE,
    consoleRole: value.CONSOLE_ROLE,
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
