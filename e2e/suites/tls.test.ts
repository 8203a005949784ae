import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  assistant,
  capsule,
  databaseUrl,
  deleteCapsules,
  gone,
  installed,
  kube,
  namespaceOf,
  OWN_ENGINES,
  programPod,
  ready,
  runningPod,
  services,
  superuserRows,
  system,
  unique,
} from './support/space.ts';
import { until } from './support/until.ts';

/** Asks PostgreSQL for a session as a client without TLS does, and prints the SQLSTATE that ends it. */
const PLAIN_SESSION = `
  const { host, port, user, database } = JSON.parse(process.argv[1]);
  const socket = require('node:net').connect(port, host, () => {
    const pairs = Buffer.from(['user', user, 'database', database, '', ''].join('\\0'));
    const head = Buffer.alloc(8);
    head.writeInt32BE(8 + pairs.length, 0);
    head.writeInt32BE(196608, 4);
    socket.write(Buffer.concat([head, pairs]));
  });
  socket.on('data', (answer) => {
    console.log(String.fromCharCode(answer[0]), /\\0C([0-9A-Z]{5})\\0/.exec(answer.toString('latin1'))?.[1]);
    socket.destroy();
  });
  socket.setTimeout(60_000, () => { console.log('no answer'); socket.destroy(); });
`;

/** Calls the broker as the operator does, four times; returns how each call ended, in their order. */
const CALLS = `
  const { request } = require('node:https');
  const plain = require('node:http').request;
  const url = new URL('/healthz', process.env.DB_BROKER_URL);
  const ca = require('node:fs').readFileSync(process.env.SPACE_CA_FILE);
  const ended = (call) => new Promise((resolve) => {
    call.on('response', (answer) => { answer.resume(); resolve(String(answer.statusCode)); });
    call.on('error', (error) => resolve(error.code));
    call.setTimeout(60_000, () => { call.destroy(); resolve('timeout'); });
    call.end();
  });
  Promise.all([
    ended(request(url, { ca })),
    ended(request(url)),
    ended(request(url, { ca, servername: 'postgres' })),
    ended(plain({ host: url.hostname, port: url.port, path: '/healthz' })),
  ]).then((all) => console.log(all.join(' ')));
`;

/** The serial number of the certificate that a server presents, whichever CA signed it. */
const SERIAL = `
  const [host, port] = process.argv.slice(1);
  const socket = require('node:tls').connect({ host, port, servername: host, rejectUnauthorized: false }, () => {
    console.log(socket.getPeerCertificate().serialNumber);
    socket.destroy();
  });
`;

async function told(namespace: string, pod: string, script: string, ...args: string[]): Promise<string> {
  const { stdout, stderr } = await kube.exec(namespace, pod, ['node', '-e', script, ...args]);
  if (stdout === '') throw new Error(stderr);
  return stdout.trim();
}

describe('between the parts of a Space', () => {
  const name = unique('tls');
  let namespace: string;
  let pod: string;

  beforeAll(async () => {
    await kube.apply(capsule(name), assistant(name, 'inside', {}, name));
    namespace = await namespaceOf(name);
    await ready('assistant', name);
    pod = (await runningPod(namespace, 'inside')).metadata.name;
  });
  afterAll(async () => {
    await deleteCapsules(name);
  });

  it('an Assistant gets a URL that demands verification, with the CA for it', async () => {
    const url = await databaseUrl(namespace, 'inside');
    const root = OWN_ENGINES === undefined ? 'ca' : 'postgres';
    expect(url.search).toBe(`?sslmode=verify-full&sslrootcert=/etc/space/tls/${root}.crt`);
    const read = "console.log(require('node:fs').readFileSync(process.env.NODE_EXTRA_CA_CERTS, 'utf8'))";
    const authority = await kube.get('configmap', 'space-ca', system);
    expect(await told(namespace, pod, read)).toBe(authority?.data['ca.crt'].trim());
  });

  it('PostgreSQL refuses an Assistant that speaks plain text, before it asks for a password', async () => {
    const url = await databaseUrl(namespace, 'inside');
    const target = { host: url.hostname, port: 5432, user: url.username, database: url.pathname.slice(1) };
    expect(await told(namespace, pod, PLAIN_SESSION, JSON.stringify(target))).toBe('E 28000');
  });

  it('PostgreSQL proves its name to libpq, by the CA that its URL names and by no other', async () => {
    const url = await databaseUrl(namespace, 'inside');
    const authority = await kube.exec(namespace, pod, ['cat', url.searchParams.get('sslrootcert') ?? '']);
    expect(authority.stdout).toContain('BEGIN CERTIFICATE');
    const server = installed.engines.postgres;
    const script = 'cat >/dev/shm/ca.crt && exec psql -XAtq "$0" -c "$1"';
    const open = (host: string, root: string) =>
      kube.exec(
        server.namespace,
        server.pod,
        [
          ...['env', `PGPASSWORD=${url.password}`, 'sh', '-c', script],
          `host=${host} hostaddr=127.0.0.1 user=${url.username} dbname=${url.pathname.slice(1)} sslmode=verify-full sslrootcert=${root}`,
          'SELECT ssl, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()',
        ],
        authority.stdout,
      );
    expect((await open(url.hostname, '/dev/shm/ca.crt')).stdout.trim()).toBe('t|TLSv1.3');
    expect((await open(url.hostname, 'system')).stderr).toContain('certificate verify failed');
    expect((await open('s3', '/dev/shm/ca.crt')).stderr).toContain('does not match host name');
  });

  it('the database broker has only encrypted sessions', async () => {
    const rows = await superuserRows(
      "SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'space_broker'",
    );
    expect(rows).toEqual(['t']);
  });

  it('the broker is verified by the Space’s CA and its own name, and speaks no plain HTTP', async () => {
    const operator = await programPod(system, 'operator');
    const ends = await told(system, operator.metadata.name, CALLS);
    expect(ends.split(' ')).toEqual([
      '200',
      'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
      'ERR_TLS_CERT_ALTNAME_INVALID',
      expect.stringMatching(/^(ECONNRESET|EPIPE|HPE_INVALID_CONSTANT)$/),
    ]);
  });

  it('the S3 server serves a certificate that was made anew, without a restart', async (context) => {
    // The program of keys renews the certificate of the chart's own S3 server only.
    if (OWN_ENGINES !== undefined) return context.skip(OWN_ENGINES);
    // Whichever runs at the moment: a rollout may replace it.
    const serial = async () =>
      told(
        services,
        (await programPod(services, 'objectstore-broker')).metadata.name,
        SERIAL,
        `s3.${services}.svc`,
        '7070',
      );
    const before = await serial();
    await kube.remove('secret', 's3-tls', services);
    await gone('secret', 's3-tls', services);
    const job = unique('keys');
    await kube.run(['create', 'job', job, '-n', system, `--from=cronjob/${installed.space}-keys`]);
    await until('another certificate', async () => (await serial()) !== before);
    await kube.remove('job', job, system);
    expect((await kube.get('pod', 's3-0', services))?.['status'].containerStatuses[0].restartCount).toBe(0);
  });
});
