import { type ChildProcess, spawn } from 'node:child_process';
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { KubeConfig } from '@kubernetes/client-node';
import { built } from '../e2e/cluster/tools.ts';
import { type ApiClient, apiClient } from '../operator/runtime/client.ts';
import { connect } from '../operator/runtime/connection.ts';
import { eventually } from './eventually.ts';
import { freePort } from './ports.ts';

/** A real kube-apiserver on a real etcd, on loopback, with nothing else of a cluster. */
export interface ApiServer {
  readonly url: string;
  /** A client with the group `system:masters`. */
  readonly client: ApiClient;
  /** The kubeconfig for kubectl and helm, as JSON. */
  readonly kubeconfig: string;
  /** A client with this token. */
  clientOf(bearer: string): ApiClient;
  /** A client that connects through another port of this machine. */
  clientAt(port: number, scheme?: 'http' | 'https'): ApiClient;
  /** Ends the API server as a crash would; etcd continues. */
  kill(): Promise<void>;
  /** Starts it again with the same port, certificate and state. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

const HOST = '127.0.0.1';
const START_MS = 240_000;

/** Names a kubeconfig (JSON) of an API server that already runs; `npm run soak -- walls` makes tests use its own. */
export const ATTACHED = 'TEST_API_SERVER';

export async function startApiServer(): Promise<ApiServer> {
  const there = process.env[ATTACHED];
  if (there !== undefined) return attachedTo(there);
  const directory = mkdtempSync(join(tmpdir(), 'space-api-server-'));
  const programs = await built('kubernetes', join(directory, 'build.log'));
  const token = randomBytes(16).toString('hex');
  const key = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const file = (name: string, text: string) => {
    writeFileSync(join(directory, name), text, { mode: 0o600 });
    return join(directory, name);
  };
  const tokens = file('tokens.csv', `${token},admin,admin,"system:masters"\n`);
  const signing = file('sa.key', key.privateKey.export({ type: 'sec1', format: 'pem' }).toString());
  const verifying = file('sa.pub', key.publicKey.export({ type: 'spki', format: 'pem' }).toString());
  const [clientPort, peerPort, port] = [await freePort(), await freePort(), await freePort()];
  const log = openSync(join(directory, 'log'), 'a');
  const run = (command: string, argv0: string, args: readonly string[]): ChildProcess =>
    spawn(join(programs, command), args, {
      // The name by which the combined program is called selects the component.
      argv0,
      stdio: ['ignore', log, log],
      cwd: directory,
    });

  const etcdUrl = `http://${HOST}:${clientPort}`;
  const peerUrl = `http://${HOST}:${peerPort}`;
  const etcd = run('etcd', 'etcd', [
    `--data-dir=${directory}/etcd`,
    '--unsafe-no-fsync',
    '--log-level=error',
    `--listen-client-urls=${etcdUrl}`,
    `--advertise-client-urls=${etcdUrl}`,
    `--listen-peer-urls=${peerUrl}`,
    `--initial-advertise-peer-urls=${peerUrl}`,
    `--initial-cluster=default=${peerUrl}`,
  ]);
  const startServer = () =>
    run('kubernetes', 'kube-apiserver', [
      `--etcd-servers=${etcdUrl}`,
      `--secure-port=${port}`,
      `--bind-address=${HOST}`,
      `--cert-dir=${directory}/certificates`,
      `--token-auth-file=${tokens}`,
      '--authorization-mode=RBAC',
      '--allow-privileged=true',
      // Pods of these tests have no ServiceAccount, since no controller creates one.
      '--disable-admission-plugins=ServiceAccount',
      '--service-cluster-ip-range=10.96.0.0/16',
      '--service-account-issuer=https://space.test',
      `--service-account-key-file=${verifying}`,
      `--service-account-signing-key-file=${signing}`,
      '--profiling=false',
      '--v=0',
    ]);
  let server = startServer();

  async function stop(): Promise<void> {
    await Promise.all([end(server), end(etcd)]);
    rmSync(directory, { recursive: true, force: true });
  }

  try {
    const url = `https://${HOST}:${port}`;
    const certificate = join(directory, 'certificates', 'apiserver.crt');
    // The key is written after the certificate, so both are complete when the key exists.
    const keyFile = join(directory, 'certificates', 'apiserver.key');
    await eventually(() => existsSync(keyFile), {
      within: START_MS,
      what: 'a certificate of the API server',
    });
    const caData = readFileSync(certificate).toString('base64');
    const kubeConfigAt = (at: number, scheme: 'http' | 'https', bearer = token) => {
      const kubeConfig = new KubeConfig();
      const cluster = {
        name: 'test',
        server: `${scheme}://${HOST}:${at}`,
        caData,
        skipTLSVerify: scheme === 'http',
      };
      kubeConfig.loadFromClusterAndUser(cluster, { name: 'admin', token: bearer });
      return kubeConfig;
    };
    const clientAt = (at: number, scheme: 'http' | 'https' = 'https'): ApiClient =>
      apiClient(connect(kubeConfigAt(at, scheme)));
    const client = clientAt(port);
    const ready = () =>
      eventually(() => client.call({ method: 'GET', path: '/api/v1/namespaces/default' }).then(() => true), {
        within: START_MS,
        what: `an API server that answers (its log is ${directory}/log)`,
      });
    await ready();
    return {
      url,
      client,
      kubeconfig: kubeConfigAt(port, 'https').exportConfig(),
      clientOf: (bearer) => apiClient(connect(kubeConfigAt(port, 'https', bearer))),
      clientAt,
      kill: () => end(server),
      async restart() {
        server = startServer();
        // The kinds of CustomResourceDefinitions are served last.
        const last = { method: 'GET', path: '/apis/platform.space/v1/assistants' } as const;
        await eventually(() => client.call(last).then(() => true), {
          within: START_MS,
          what: 'all kinds are served',
        });
      },
      stop,
    };
  } catch (cause) {
    // The directory is removed, so its log is read before.
    const said = readFileSync(join(directory, 'log'), 'utf8').split('\n').slice(-20).join('\n');
    await stop();
    const why = cause instanceof Error ? cause.message : 'for no reason that is told';
    throw new Error(`the API server or its etcd did not start: ${why}; they said last: ${said}`, { cause });
  }
}

/** Uses a server that belongs to another process, which also ends it. */
function attachedTo(kubeconfig: string): ApiServer {
  const clientOf = (bearer?: string): ApiClient => {
    const kubeConfig = new KubeConfig();
    kubeConfig.loadFromString(kubeconfig);
    const [cluster, user] = [kubeConfig.getCurrentCluster(), kubeConfig.getCurrentUser()];
    if (cluster === null || user === null) throw new Error(`${ATTACHED} names no API server`);
    kubeConfig.loadFromClusterAndUser(cluster, bearer === undefined ? user : { ...user, token: bearer });
    return apiClient(connect(kubeConfig));
  };
  const cannot = () => {
    throw new Error(
      'an API server that a test has not started is not its to end, nor reached by another port',
    );
  };
  const { clusters } = JSON.parse(kubeconfig) as { clusters: readonly { cluster: { server: string } }[] };
  return {
    url: clusters[0]?.cluster.server ?? '',
    client: clientOf(),
    kubeconfig,
    clientOf,
    clientAt: cannot,
    kill: cannot,
    restart: cannot,
    stop: async () => undefined,
  };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await gone;
}
