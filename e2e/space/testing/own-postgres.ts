import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { makePki } from '../../../testing/certificates.ts';
import { eventually } from '../../../testing/eventually.ts';
import type { Kube } from '../kube.ts';
import { readOrCreateSecret } from './kept.ts';

const MANAGED = resolve(import.meta.dirname, '../../../brokers/db/postgres/managed.sql');
const PORT = 5_432;
const WITHIN_MS = 600_000;

/** A PostgreSQL as a provider offers it: behind TLS, and its administrator is no superuser. */
export interface OwnPostgres {
  readonly namespace: string;
  /** The value `postgres.external` of a release. */
  readonly external: Readonly<Record<string, unknown>>;
  /** The password of `space_broker` and `space_objectstore`. */
  readonly password: string;
  /** Runs statements in one transaction as its superuser, which no Space knows; returns rows as text. */
  rows(sql: string, database?: string): Promise<string[]>;
  /** Ends the server as the loss of a node would; it comes back with its data. */
  crash(): Promise<void>;
}

/**
 * Its data stays when its container ends. Extensions are read from where the image has them, since its own entry
 * point selects from there.
 */
const START = `
set -eu
umask 077
mkdir -p /run/postgresql/extension
ln -sf /usr/share/postgresql/17/extension.all/* /run/postgresql/extension/
if [ ! -e /data/pg/PG_VERSION ]; then
  initdb -D /data/draft -U postgres -E UTF8 --locale=C.UTF-8 --auth=trust >/dev/null
  printf '%s\\n' 'local all all trust' 'hostssl all all all scram-sha-256' >/data/draft/pg_hba.conf
  echo "include '/usr/share/space/settings.conf'" >>/data/draft/postgresql.conf
  pg_ctl -w -s -D /data/draft -o "-c listen_addresses=" start
  psql -XqU postgres -v ON_ERROR_STOP=1 -f /start/provider.sql postgres
  psql -XqU master -v ON_ERROR_STOP=1 -f /start/managed.sql postgres
  psql -XqU master -v ON_ERROR_STOP=1 -v password="$PASSWORD" -f /start/passwords.sql postgres
  pg_ctl -w -s -D /data/draft stop
  mv /data/draft /data/pg
fi
exec postgres -D /data/pg -c listen_addresses='*' -c log_min_messages=fatal \\
  -c ssl=on -c ssl_cert_file=/start/tls.crt -c ssl_key_file=/start/tls.key -c unix_socket_directories=/run/postgresql
`;

const PROVIDER = `
CREATE ROLE provider_superuser;
GRANT pg_signal_backend, pg_monitor, pg_read_all_stats, pg_use_reserved_connections TO provider_superuser WITH ADMIN OPTION;
CREATE ROLE master LOGIN CREATEROLE CREATEDB;
GRANT provider_superuser TO master;
ALTER DATABASE postgres OWNER TO master;
`;
const PASSWORDS = `
ALTER ROLE space_broker PASSWORD :'password';
ALTER ROLE space_objectstore PASSWORD :'password';
`;

/** `image` is the embedded server's, which the cluster has already. One that runs there already is found as it was made. */
export async function startOwnPostgres(kube: Kube, namespace: string, image: string): Promise<OwnPostgres> {
  const host = `pg.${namespace}.svc`;
  const of = { name: 'pg', namespace };
  const kept = await readOrCreateSecret(kube, of, async () => {
    const pki = await makePki();
    const { cert, key } = await pki.issue(host);
    await pki.remove();
    return {
      'ca.crt': pki.authority,
      'tls.crt': cert,
      'tls.key': key,
      'managed.sql': await readFile(MANAGED, 'utf8'),
      'provider.sql': PROVIDER,
      'passwords.sql': PASSWORDS,
      password: randomBytes(24).toString('base64url'),
    };
  });
  await kube.apply(
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: of,
      spec: { selector: { app: 'pg' }, ports: [{ port: PORT }] },
    },
    {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { ...of, labels: { app: 'pg' } },
      spec: {
        automountServiceAccountToken: false,
        terminationGracePeriodSeconds: 0,
        securityContext: { runAsUser: 999, runAsGroup: 999, fsGroup: 999 },
        containers: [
          {
            name: 'pg',
            image,
            imagePullPolicy: 'IfNotPresent',
            command: ['sh', '-c', START],
            env: [{ name: 'PASSWORD', valueFrom: { secretKeyRef: { name: 'pg', key: 'password' } } }],
            readinessProbe: { tcpSocket: { port: PORT }, periodSeconds: 1 },
            volumeMounts: [
              { name: 'data', mountPath: '/data' },
              { name: 'run', mountPath: '/run/postgresql' },
              { name: 'start', mountPath: '/start', readOnly: true },
            ],
          },
        ],
        volumes: [
          { name: 'data', emptyDir: {} },
          { name: 'run', emptyDir: {} },
          { name: 'start', secret: { secretName: 'pg', defaultMode: 0o440 } },
        ],
      },
    },
  );
  const restarts = async () => {
    const pod = await kube.get('pod', 'pg', namespace);
    const [status] = pod?.['status']?.containerStatuses ?? [];
    return status?.ready === true ? (status.restartCount as number) : undefined;
  };
  await eventually(async () => (await restarts()) !== undefined, {
    what: 'PostgreSQL is ready',
    within: WITHIN_MS,
  });
  const service = await kube.get('service', 'pg', namespace);
  return {
    namespace,
    external: {
      host,
      port: PORT,
      assistants: { addresses: [service?.['spec'].clusterIP] },
      ca: kept['ca.crt'],
      pods: { namespace, labels: { app: 'pg' }, port: PORT },
      acceptOpenDatabases: ['template1'],
    },
    password: kept.password,
    async rows(sql, database = 'postgres') {
      const psql = ['psql', '-XAtqU', 'postgres', '-d', database, '-c', sql];
      const { code, stdout, stderr } = await kube.exec(namespace, 'pg', psql);
      if (code !== 0) throw new Error(stderr);
      return stdout.split('\n').filter((row) => row !== '');
    },
    async crash() {
      const before = await restarts();
      await kube.exec(namespace, 'pg', ['sh', '-c', 'kill -QUIT 1']);
      const isBack = async () => {
        const now = await restarts();
        return now !== undefined && now !== before;
      };
      await eventually(isBack, { what: 'PostgreSQL is ready again', within: WITHIN_MS });
    },
  };
}
