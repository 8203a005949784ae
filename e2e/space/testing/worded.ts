import type { KubeObject } from '../kube-object.ts';

/** What a word may be: a name of Kubernetes, one without dots, a host, a reference of an image, printable characters, any text. */
export type Sort = 'name' | 'label' | 'host' | 'image' | 'printable' | 'text';
export type Word = (sort: Sort) => string;

type Values = Readonly<Record<string, unknown>>;

const BLOCK = ['203.0.113.0/24'];
const RECIPIENT = 'age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p';

/** Values with a word in each place where the schema accepts one; the Space has its own PostgreSQL and S3 server. */
export function embeddedValues(word: Word): Values {
  const image = () => ({ image: word('image') });
  const pods = () => ({ namespace: word('text'), labels: { app: word('text') } });
  return {
    sandbox: {
      runtimeClass: word('name'),
      handler: word('label'),
      createRuntimeClass: true,
      podAnnotations: [word('name')],
      scheduling: { nodeSelector: { zone: word('text') }, tolerations: [{ key: word('text') }] },
      overhead: { memory: '32' },
      attester: { image: word('image'), accepted: [word('image')] },
    },
    retention: { grace: '3600s' },
    image: { pullSecrets: [{ name: word('name') }], registry: '' },
    scheduling: {
      nodeSelector: { zone: word('text') },
      tolerations: [{ key: word('text'), value: word('text') }],
      affinity: { nodeAffinity: { zone: word('text') } },
      priorityClassName: word('name'),
    },
    operator: image(),
    dbBroker: { ...image(), defaultQuotaBytes: 16_777_216 },
    postgres: {
      ...image(),
      extensions: ['vector'],
      storage: { size: '5000000000', className: word('name') },
    },
    egress: {
      ...image(),
      deniedCIDRs: BLOCK,
      allowedCIDRs: BLOCK,
      nat64Prefixes: ['2001:db8::/96'],
      hosts: { [word('host')]: '203.0.113.7:8443' },
      extraCA: word('text'),
      requestHeaders: [word('label')],
    },
    objectStore: {
      ...image(),
      defaultQuotaBytes: 16_777_216,
      dataPlane: { byok: true },
      byok: {
        cidrs: BLOCK,
        deniedBlocks: BLOCK,
        hosts: { [word('host')]: '10.0.0.1:9000' },
        extraCA: word('text'),
      },
    },
    s3: { ...image(), storage: { size: '5000000000', className: word('name') } },
    backup: {
      enabled: true,
      recipient: RECIPIENT,
      schedule: word('text'),
      postgres: { queue: '1Gi' },
      s3: {
        endpoint: `https://${word('host')}`,
        region: word('label'),
        bucket: `bucket-${word('label')}`,
        prefix: word('label'),
        ca: word('text'),
        cidrs: BLOCK,
        pods: pods(),
      },
    },
    people: {
      administrators: [{ kind: 'User', apiGroup: word('text'), name: word('text'), namespace: word('text') }],
      wholeCluster: true,
    },
    console: {
      ...image(),
      origins: [`https://${word('host')}`],
      oidc: {
        issuer: `https://${word('host')}/home`,
        clientId: word('text'),
        existingSecret: word('name'),
        scope: word('text'),
        userClaim: word('text'),
        groupsClaim: word('text'),
        prefix: word('printable'),
        groups: [word('text')],
        users: [word('text')],
        ca: word('text'),
        cidrs: BLOCK,
      },
      ingress: {
        host: word('host'),
        className: word('name'),
        annotations: { note: word('text') },
        tlsSecret: word('name'),
      },
      route: { host: word('host'), parentRefs: [{ name: word('text') }] },
      from: [word('label')],
    },
    existingSecrets: existingSecrets(word),
    tls: {
      existingCA: word('name'),
      existingSecrets: Object.fromEntries(
        ['dbBroker', 'egress', 'postgres', 'objectStoreBroker', 's3', 'console'].map((key) => [
          key,
          word('name'),
        ]),
      ),
      writers: [word('text')],
    },
    network: {
      apiServerCIDRs: BLOCK,
      monitoringNamespace: word('name'),
      dns: { namespace: word('label'), cidrs: BLOCK, podLabels: { app: word('text') } },
    },
    monitoring: { podMonitor: true, rules: true, dashboard: true, labels: { release: word('text') } },
  };
}

/** The same for a Space whose PostgreSQL servers and S3 server are somebody else's. */
export function externalValues(word: Word): Values {
  const { postgres, objectStore, ...others } = embeddedValues(word);
  const server = (assistants: string, ca: string) => ({
    host: word('name'),
    assistants: { host: assistants, addresses: ['10.0.0.1'] },
    ca,
    cidrs: BLOCK,
    pods: { namespace: word('text'), labels: { app: word('text') } },
    ownBackup: true,
  });
  return {
    ...others,
    postgres: {
      ...(postgres as object),
      external: { ...server('first.example.org', word('text')), acceptOpenDatabases: [word('text')] },
      servers: [{ ...server('second.example.org', 'PEM'), name: 'second', existingSecret: word('name') }],
    },
    objectStore: {
      ...(objectStore as object),
      external: {
        endpoint: `https://${word('host')}`,
        region: word('label'),
        bucket: `bucket-${word('label')}`,
        ca: word('text'),
        cidrs: BLOCK,
        pods: { namespace: word('text'), labels: { app: word('text') } },
      },
    },
  };
}

function existingSecrets(word: Word): Values {
  const keys = [
    ...['dbAdmin', 'dbBrokerKeys', 'dbProvisioner', 'egressProvisioner', 'egressObserver', 'egressKeys'],
    ...['objectStoreRegistry', 'objectStoreKeys', 'objectStoreProvisioner', 'objectStoreGrants'],
    ...['s3Root', 'backupS3', 'backupKeys', 'consoleSession'],
  ];
  return Object.fromEntries(keys.map((key) => [key, word('name')]));
}

/** Objects without what is computed from their content, and with JSON in their texts as values. */
export function comparable(objects: readonly KubeObject[], replace: (text: string) => string): unknown {
  // In the text of a policy Helm writes this character so, which is the same to the API server.
  const plain = (text: string) => text.replaceAll('\\u0026', '&').replaceAll(/[0-9a-f]{64}/g, 'HASH');
  const clean = (value: unknown): unknown => {
    if (typeof value === 'string') return fromJson(value) ?? plain(replace(value));
    if (Array.isArray(value)) return value.map(clean);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [replace(key), clean(item)]));
  };
  const fromJson = (text: string): unknown => {
    if (!/^[[{]/.test(text)) return undefined;
    try {
      return clean(JSON.parse(text));
    } catch {
      return undefined;
    }
  };
  return objects.map(({ metadata, ...others }) =>
    clean({ ...others, metadata: { ...metadata, name: metadata.name.replace(/-[0-9a-f]{8}$/, '-HASH') } }),
  );
}
