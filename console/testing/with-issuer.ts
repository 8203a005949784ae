import { freePort } from '../../testing/ports.ts';
import { Browser } from './browser.ts';
import type { Started, TestEnvironment } from './environment.ts';
import { rulesAt, untilInForce } from './in-force.ts';
import { startIssuer, type TestIssuer } from './issuer.ts';

/** A console with a real issuer, and the settings that it was started with. */
export interface WithIssuer extends Started {
  readonly issuer: TestIssuer;
  readonly settings: Readonly<Record<string, string>>;
  /** A browser in which the person that the issuer names so has signed in. */
  signedIn(sub: string, groups: readonly string[]): Promise<Browser>;
}

const RBAC = '/apis/rbac.authorization.k8s.io/v1';

/** `groups` are those that count; the console may impersonate them and everybody, as the chart has it with `console.oidc`. */
export async function startWithIssuer(
  environment: TestEnvironment,
  groups: readonly string[],
  more: Readonly<Record<string, string>> = {},
): Promise<WithIssuer> {
  const port = await freePort();
  const origin = `http://localhost:${port}`;
  const issuer = await startIssuer([`${origin}/sign-in/issuer/answer`]);
  const settings = {
    LISTEN_PORT: String(port),
    ORIGINS: origin,
    OIDC_ISSUER: issuer.url,
    OIDC_CLIENT_ID: 'space',
    OIDC_CLIENT_SECRET_FILE: environment.write('client-secret', 'secret-of-the-console\n'),
    OIDC_CA_FILE: issuer.caFile,
    OIDC_GROUPS: groups.join(','),
    ...more,
  };
  const started = await environment.start(settings);
  const { create } = environment.policyServer;
  const resourceNames = groups.map((group) => `oidc:${group}`);
  const metadata = { name: 'home-console-impersonate' };
  await create(`${RBAC}/clusterroles`, {
    metadata,
    rules: [
      { apiGroups: [''], resources: ['users'], verbs: ['impersonate'] },
      { apiGroups: [''], resources: ['groups'], resourceNames, verbs: ['impersonate'] },
    ],
  });
  await create(`${RBAC}/clusterrolebindings`, {
    metadata,
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', ...metadata },
    subjects: [{ kind: 'ServiceAccount', name: 'home-console', namespace: 'home-system' }],
  });
  return {
    ...{ ...started, origin },
    issuer,
    settings,
    async signedIn(sub, groups) {
      issuer.claims = { sub, groups };
      const browser = new Browser(origin);
      const sent = await browser.once('GET', '/sign-in/issuer');
      await browser.once('GET', await issuer.goThrough(String(sent.headers['location'])));
      if (!browser.cookies.has('__Host-space-session')) throw new Error(`${sub} is not signed in`);
      return browser;
    },
  };
}

/** Binds a ClusterRole of the chart in the Space to a group that the issuer names. */
export async function bindGroup(
  { policyServer }: TestEnvironment,
  group: string,
  role: string,
): Promise<void> {
  const name = `home-space-${role}`;
  await policyServer.create(`${RBAC}/namespaces/home/rolebindings`, {
    metadata: { name: `group-${group}` },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name },
    subjects: [{ kind: 'Group', name: `oidc:${group}`, apiGroup: 'rbac.authorization.k8s.io' }],
  });
  const rules = await rulesAt(policyServer, `${RBAC}/clusterroles/${name}`);
  await untilInForce(policyServer, { groups: [`oidc:${group}`] }, rules, 'home');
}
