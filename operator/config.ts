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
    SPACE_NAME: identifier.max(40).describe('Name of the Space, which is that of its Helm release.'),
    SPACE_NAMESPACE: z
      .string()
      .min(1)
      .describe('Namespace of the release, with Capsules, Assistants and stored inputs.'),
    SYSTEM_NAMESPACE: z
      .string()
      .min(1)
      .describe('Namespace of the operator, with principals, sealed inputs, probes and the Lease.'),
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
        "Image of the attester, which is the first container of every Assistant's pod and the only one of a probe.",
      ),
    IMAGE_PULL_SECRETS: z
      .string()
      .default('')
      .transform((names) => names.split(',').filter((name) => name !== ''))
      .describe(
        "Names of pull Secrets in the operator's namespace for the images of attester and Assistants, separated by commas.",
      ),
    SANDBOX_HANDLER_REPORT: z
      .enum(['node', 'probe'])
      .default('node')
      .describe(
        'What shows that a node has the handler: `node` requires its own report; `probe` also accepts a passed probe from a node that reports no handlers at all.',
      ),
    SANDBOX_ON_LOSS: z
      .enum(['keep', 'stop'])
      .default('keep')
      .describe('What happens to running Assistants when the sandbox is gone: they are kept or stopped.'),
    RETENTION_GRACE: z
      .string()
      .default('0')
      .refine(
        (text) => readGrace(text) !== undefined,
        'must be 0, or a number with s, m, h or d, at most 366d',
      )
      .describe(
        'How long the data of a deleted Capsule or Assistant is kept before it is dropped: `0`, or a number with its unit, such as `72h`; at most `366d`.',
      ),
    DB_BROKER_URL: z
      .url({ protocol: /^https?$/ })
      .describe("URL of the database broker's control listener; https is required if SPACE_CA_FILE is set."),
    SPACE_CA_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        "PEM file of the Space's certificate authority. If it is set, the operator and Assistants accept only its certificates from brokers, gateway and PostgreSQL.",
      ),
    DATABASE_SERVER: z
      .string()
      .min(1)
      .optional()
      .transform(readServer)
      .describe(
        'PostgreSQL server that the Space does not run, as JSON: host, addresses, port, and egress (the NetworkPolicy rules through which Assistants reach it).',
      ),
    FURTHER_DATABASE_SERVERS: z
      .string()
      .default('[]')
      .transform(readServers)
      .describe(
        'Further PostgreSQL servers on which Capsules may be placed, as a JSON list; each entry has the form of DATABASE_SERVER.',
      ),
    DATABASE_CA_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        'PEM file of the certificate authorities of all PostgreSQL servers that the Space does not run. Assistants use it to verify those servers, and nothing else.',
      ),
    DB_PROVISIONER_TOKEN_FILE: z
      .string()
      .min(1)
      .default('/etc/space/provisioner/token')
      .describe("File with the provisioner's token for the database broker."),
    POD_NAME: z
      .string()
      .regex(/^[a-z0-9.-]+$/)
      .default('operator')
      .describe("Name of the operator's pod, which is written to the Lease."),
    POD_UID: z
      .string()
      .regex(/^[a-zA-Z0-9-]+$/)
      .optional()
      .describe(
        'UID of that pod, by which a standby notices that the holder of the Lease is gone. If it is not set, a random one is used.',
      ),
    OBJECT_STORE_BROKER_URL: z
      .url({ protocol: /^https?$/ })
      .optional()
      .describe(
        "URL of the object-storage broker's control listener; https is required if SPACE_CA_FILE is set. Without it, the Space has no object store.",
      ),
    OBJECT_STORE_PROVISIONER_TOKEN_FILE: z
      .string()
      .min(1)
      .default('/etc/space/objectstore-provisioner/token')
      .describe("File with the provisioner's token for the object-storage broker."),
    CONSOLE_ROLE: z
      .string()
      .min(1)
      .optional()
      .describe(
        "Role in the operator's namespace in which the operator lists Capsules' object-store principals, so that the console may read them. Without it, nobody may.",
      ),
    GRANT_SIGNING_KEY_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        "PEM file of the Ed25519 key that signs grants for Capsules' own credentials. Without it, no Assistant gets a grant.",
      ),
    EGRESS_PROVISIONER_TOKEN_FILE: z
      .string()
      .min(1)
      .default('/etc/space/egress-provisioner/token')
      .describe("File with the provisioner's token for the egress gateway."),
    EGRESS_CONTROL_PORT: port.default(8080).describe('Port of the control listener of each gateway pod.'),
    EGRESS_SERVER_NAME: z
      .string()
      .min(1)
      .optional()
      .describe(
        "Name in the gateway's certificate. Without it, the operator calls the gateway over plain HTTP.",
      ),
    LISTEN_HOST: z
      .string()
      .min(1)
      .optional()
      .describe(
        'Address that health and metrics are served on. If it is not set, they are served on every address.',
      ),
    HEALTH_PORT: port.default(8081).describe('Port of /healthz and /readyz.'),
    METRICS_PORT: port.default(9090).describe('Port of the Prometheus metrics.'),
    LOG_LEVEL: z
      .enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal'])
      .default('info')
      .describe('Least severe level that is logged.'),
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
