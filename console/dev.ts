/**
 * `npm run dev:console`: runs the console from these sources against the Space of `npm run up`, and restarts it after each
 * change of its files, style and script included. It uses the account, the session keys, the broker and the gateway of the
 * installed console, so that people stay signed in. Ctrl-C ends it and leaves nothing behind.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLogger, portOf, stopSignal } from '@space/broker-kit';
import { DEFAULT_CLUSTER, openCluster } from '../e2e/cluster/index.ts';
import { createKube, type Kube } from '../e2e/space/kube.ts';
import { type Forwarding, portForward } from '../e2e/space/port-forward.ts';
import { readConfig } from './config.ts';
import { startReloading } from './reloading.ts';
import type { Console } from './service.ts';

const SPACE = 'home';
const SYSTEM = `${SPACE}-system`;
const SERVICES = `${SPACE}-services`;
const { PORT = '8444', SPACE_CLUSTER = DEFAULT_CLUSTER } = process.env;

interface View {
  readonly clusters: readonly [
    { readonly cluster: { readonly server: string; readonly 'certificate-authority-data': string } },
  ];
}

const decoded = (text: string | undefined): string => Buffer.from(text ?? '', 'base64').toString();

async function must(kube: Kube, ...args: readonly string[]): Promise<string> {
  const { stdout, stderr, code } = await kube.run(args);
  if (code !== 0) throw new Error(stderr);
  return stdout.trim();
}

/** A local server with the name and certificate of a cluster's server, for a process outside of the cluster. */
async function frontOf({ port }: Forwarding, servername: string, ca: string): Promise<Server> {
  const front = createServer((asked, response) => {
    const { method, headers, url: path } = asked;
    const onward = request({ host: '127.0.0.1', port, servername, ca, method, headers, path }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    onward.on('error', () => response.destroy());
    asked.pipe(onward);
  });
  await new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve));
  return front;
}

const stopped = stopSignal();
const log = createLogger({ service: 'console', level: 'info', destination: process.stderr });
const files = mkdtempSync(join(tmpdir(), 'space-dev-console-'));
const forwardings: Forwarding[] = [];
const fronts: Server[] = [];
let console_: Pick<Console, 'stop'> | undefined;

try {
  const cluster = await openCluster(SPACE_CLUSTER);
  if (cluster === undefined) throw new Error(`The cluster ${SPACE_CLUSTER} is not up: npm run up`);
  const tool = { kubectl: await cluster.tool('kubectl'), kubeconfig: cluster.kubeconfig };
  const kube = createKube(tool.kubectl, tool.kubeconfig);
  const view = JSON.parse(
    await must(kube, 'config', 'view', '--minify', '--raw', '--flatten', '-o', 'json'),
  ) as View;
  const { server, 'certificate-authority-data': authority } = view.clusters[0].cluster;
  const session = await kube.get('secret', 'console-session', SYSTEM);
  const space = await kube.get('configmap', 'space-ca', SYSTEM);
  const observer = await kube.get('secret', 'egress-observer', SYSTEM);
  /** The local address of a Service that has a certificate with this name. */
  const reach = async (service: string, certified: string): Promise<string> => {
    const forwarding = await portForward(tool, SERVICES, service, 8080);
    forwardings.push(forwarding);
    const front = await frontOf(forwarding, `${certified}.${SERVICES}.svc`, space?.['data']['ca.crt']);
    fronts.push(front);
    return `http://127.0.0.1:${portOf(front)}`;
  };
  const file = (name: string, text: string): string => {
    const path = join(files, name);
    writeFileSync(path, text, { mode: 0o600 });
    return path;
  };
  const config = readConfig({
    SPACE_NAME: SPACE,
    SPACE_NAMESPACE: SPACE,
    SYSTEM_NAMESPACE: SYSTEM,
    SERVICES_NAMESPACE: SERVICES,
    ORIGINS: `http://localhost:${PORT}`,
    LISTEN_HOST: '127.0.0.1',
    LISTEN_PORT: PORT,
    METRICS_PORT: '0',
    SESSION_KEYS_FILE: file('keys', decoded(session?.['data'].keys)),
    KUBERNETES_URL: server,
    KUBERNETES_CA_FILE: file('ca.crt', decoded(authority)),
    KUBERNETES_TOKEN_FILE: file(
      'token',
      await must(kube, '-n', SYSTEM, 'create', 'token', `${SPACE}-console`, '--duration', '12h'),
    ),
    OBJECT_STORE_URL: await reach('objectstore-broker', 'objectstore-broker'),
    // A single replica, since a port-forward leads to only one.
    EGRESS_URL: await reach('egress-replicas', 'platform-assistant-egress'),
    EGRESS_OBSERVER_TOKEN_FILE: file('observer', decoded(observer?.['data'].token)),
    LOG_LEVEL: process.env['LOG_LEVEL'],
  });
  log.level = config.LOG_LEVEL;
  console_ = await startReloading({ config, log, html: join(import.meta.dirname, 'html') });
  const token = `npm run -s kubectl -- -n ${SPACE} create token console-admin`;
  process.stdout.write(`${JSON.stringify({ service: 'console', url: `http://localhost:${PORT}`, token })}\n`);
  await stopped;
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
} finally {
  await console_?.stop();
  for (const front of fronts) {
    front.closeAllConnections();
    front.close();
  }
  for (const forwarding of forwardings) await forwarding.close();
  rmSync(files, { recursive: true, force: true });
}
process.exit();
