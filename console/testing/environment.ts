import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLogger } from '@space/broker-kit';
import { named, type PolicyServer, startPolicyServer } from '../../e2e/space/testing/policy-server.ts';
import { freePort } from '../../testing/ports.ts';
import { readConfig } from '../config.ts';
import { type Console, type Patience, startConsole } from '../service.ts';
import { Browser } from './browser.ts';
import { accountOf, rulesAt, untilInForce } from './in-force.ts';
import { routesOf } from './routes-of.ts';

export const ROLES = ['nobody', 'viewer', 'deployer', 'capsule-admin', 'admin'] as const;
export type Role = (typeof ROLES)[number];

/** A console that runs. */
export interface Started {
  readonly origin: string;
  /** Each route that it answers, as `METHOD path`. */
  readonly routes: readonly string[];
  stop(): Promise<unknown>;
}

/** A real API server with the chart's roles and policies, accounts of each role, and a console in front of it. */
export interface TestEnvironment {
  readonly policyServer: PolicyServer;
  readonly origin: string;
  readonly log: readonly string[];
  readonly tokens: Readonly<Record<Role, string>>;
  /** A browser in which somebody with this role has signed in. */
  signedIn(role: Role, origin?: string): Promise<Browser>;
  /** The same for the person with this token. */
  signedInWith(token: string, origin?: string): Promise<Browser>;
  /** Somebody with these rights in the Space's namespace and no others: their token. */
  person(name: string, rules: readonly object[]): Promise<string>;
  /** A console of its own, with other settings or another clock. */
  start(settings?: Readonly<Record<string, string>>, now?: () => Date): Promise<Started>;
  /** More rights for an account, in the Space's namespace or in another one. */
  grant(account: string, rules: readonly object[], namespace?: string): Promise<void>;
  /** Grants an account of the Space's namespace the rights that `people` of the chart grants. */
  administer(account: string): Promise<void>;
  /** What a console is started with, but for its address. */
  readonly variables: Readonly<Record<string, string>>;
  /** The file that sessions are sealed with. */
  readonly sessionKeys: string;
  /** Puts a file where the console reads it. */
  write(name: string, text: string): string;
  close(): Promise<void>;
}

const SPACE = 'home';
/** A process of a busy machine may stand still for longer than a person would wait, and is not unavailable for that. */
export const PATIENT: Patience = { apiMs: 180_000, turnMs: 180_000, asideMs: 60_000, requestsMs: 60_000 };
const RBAC = '/apis/rbac.authorization.k8s.io/v1';

export async function startEnvironment(
  settings: Readonly<Record<string, string>> = {},
): Promise<TestEnvironment> {
  await using opened = new AsyncDisposableStack();
  const directory = mkdtempSync(join(tmpdir(), 'space-console-'));
  opened.defer(() => rmSync(directory, { recursive: true }));
  const policyServer = await startPolicyServer([SPACE]);
  opened.defer(() => policyServer.stop());
  const started: Console[] = [];
  opened.defer(async () => void (await Promise.all(started.map((one) => one.stop()))));
  const log: string[] = [];
  const write = (name: string, text: string) => {
    writeFileSync(join(directory, name), text, { mode: 0o600 });
    return join(directory, name);
  };
  const { create } = policyServer;

  async function tokenOf(namespace: string, name: string): Promise<string> {
    const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`;
    const made = (await create(path, { spec: { expirationSeconds: 3600 } })) as { status: { token: string } };
    return made.status.token;
  }

  async function roleToken(role: Role): Promise<string> {
    await create(`/api/v1/namespaces/${SPACE}/serviceaccounts`, named(role));
    const token = await tokenOf(SPACE, role);
    if (role === 'nobody') return token;
    const name = `${SPACE}-space-${role}`;
    await create(`${RBAC}/namespaces/${SPACE}/rolebindings`, {
      ...named(`${role}-of-the-space`),
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name },
      subjects: [{ kind: 'ServiceAccount', name: role, namespace: SPACE }],
    });
    const rules = await rulesAt(policyServer, `${RBAC}/clusterroles/${name}`);
    await untilInForce(policyServer, { user: accountOf(role, SPACE) }, rules, SPACE);
    return token;
  }

  async function start(more: Readonly<Record<string, string>> = {}, now?: () => Date) {
    const port = await freePort();
    const origin = `http://localhost:${port}`;
    const config = readConfig({
      ...environment,
      ORIGINS: origin,
      LISTEN_PORT: String(port),
      ...settings,
      ...more,
    });
    const destination = { write: (line: string) => void log.push(line) };
    const logger = createLogger({ service: 'console', level: 'debug', destination });
    const console = await startConsole({
      ...{ config, log: logger, patience: PATIENT },
      ...(now === undefined ? {} : { now }),
    });
    started.push(console);
    return { origin, routes: routesOf(console.app), stop: () => console.stop() };
  }

  const sessionKeys = randomBytes(32).toString('base64url');
  const cluster = JSON.parse(policyServer.server.kubeconfig) as {
    clusters: readonly [{ cluster: { 'certificate-authority-data': string } }];
  };
  const environment = {
    SPACE_NAME: SPACE,
    SPACE_NAMESPACE: SPACE,
    SYSTEM_NAMESPACE: `${SPACE}-system`,
    SERVICES_NAMESPACE: `${SPACE}-services`,
    LISTEN_HOST: '127.0.0.1',
    METRICS_PORT: '0',
    SIGN_INS_PER_MINUTE: '100000',
    SESSION_KEYS_FILE: write('keys', sessionKeys),
    KUBERNETES_URL: policyServer.server.url,
    KUBERNETES_CA_FILE: write(
      'ca.crt',
      Buffer.from(cluster.clusters[0].cluster['certificate-authority-data'], 'base64').toString(),
    ),
    KUBERNETES_TOKEN_FILE: write('token', await tokenOf(`${SPACE}-system`, 'home-console')),
  };
  async function grant(to: string, rules: readonly object[], namespace = SPACE): Promise<void> {
    const name = `${to}-more`;
    await create(`${RBAC}/namespaces/${namespace}/roles`, { ...named(name), rules });
    await create(`${RBAC}/namespaces/${namespace}/rolebindings`, {
      ...named(name),
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name },
      subjects: [{ kind: 'ServiceAccount', name: to, namespace: SPACE }],
    });
    await untilInForce(policyServer, { user: accountOf(to, SPACE) }, rules, namespace);
  }

  async function administer(account: string): Promise<void> {
    const bindings = [
      ['inputs', `namespaces/${SPACE}/rolebindings`],
      ['runtime', 'clusterrolebindings'],
      ['cluster', 'clusterrolebindings'],
    ] as const;
    for (const [role, where] of bindings) {
      const name = `${SPACE}-space-${role}`;
      await create(`${RBAC}/${where}`, {
        ...named(`${account}-${role}`),
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name },
        subjects: [{ kind: 'ServiceAccount', name: account, namespace: SPACE }],
      });
      const rules = await rulesAt(policyServer, `${RBAC}/clusterroles/${name}`);
      await untilInForce(policyServer, { user: accountOf(account, SPACE) }, rules, SPACE);
    }
  }

  async function signedInWith(token: string, at = origin): Promise<Browser> {
    const browser = new Browser(at);
    const page = await browser.send(await browser.get('/sign-in'), '/sign-in', { token });
    if (!browser.cookies.has('__Host-space-session')) throw new Error(page.text);
    return browser;
  }

  const pairs: [Role, string][] = [];
  for (const role of ROLES) pairs.push([role, await roleToken(role)]);
  const tokens = Object.fromEntries(pairs) as Record<Role, string>;
  const { origin } = await start();
  const whole = opened.move();
  return {
    policyServer,
    origin,
    log,
    tokens,
    start,
    write,
    variables: environment,
    sessionKeys,
    grant,
    administer,
    signedIn: (role, at) => signedInWith(tokens[role], at),
    signedInWith,
    async person(name, rules) {
      await create(`/api/v1/namespaces/${SPACE}/serviceaccounts`, named(name));
      await grant(name, rules);
      return tokenOf(SPACE, name);
    },
    close: () => whole.disposeAsync(),
  };
}
