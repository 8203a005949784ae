import { readFile } from 'node:fs/promises';
import { createMetrics, hold, type Logger, parseKeys, Secret, watched } from '@space/broker-kit';
import { startShell } from '@space/broker-kit/service';
import { createApp } from './app.ts';
import { type CredentialBroker, credentialBroker } from './broker/client.ts';
import { principals } from './broker/principal.ts';
import type { Config } from './config.ts';
import { readAssets } from './http/assets.ts';
import { Origins } from './http/origin.ts';
import { type Caller, kubernetes } from './kubernetes/client.ts';
import { reviewToken } from './kubernetes/token-review.ts';
import { credentialRoutes } from './pages/credentials.ts';
import { LiveStreams } from './pages/live-streams.ts';
import { countRepairs } from './pages/repairs.ts';
import { ROUTES } from './routes.ts';
import { Issuer } from './session/issuer.ts';
import { Sealed } from './session/sealed.ts';
import { EndedSessions, type Session } from './session/session.ts';
import { SignIn } from './session/sign-in.ts';

export interface Console {
  readonly port: number;
  stop(): Promise<boolean>;
}

const REQUESTS_END_MS = 10_000;

type Watch = <T>(path: string, parse: (text: string) => T) => Promise<{ current(): T }>;

/** Keys, account, issuer, listener: what of these is missing stops the start. */
export async function startConsole(options: {
  readonly config: Config;
  readonly log: Logger;
  readonly now?: () => Date;
}): Promise<Console> {
  const { config, log, now = () => new Date() } = options;
  const { ports, stop } = await startShell(config, log, async (held) => {
    const watch: Watch = async (path, parse) => hold(held, await watched(path, parse, log));
    const keys = await watch(config.SESSION_KEYS_FILE, (text) => parseKeys(text, 'SESSION_KEYS_FILE'));
    const account = await watch(config.KUBERNETES_TOKEN_FILE, (text) => new Secret(text.trim()));
    const api = kubernetes({
      url: config.KUBERNETES_URL,
      ca: await readFile(config.KUBERNETES_CA_FILE, 'utf8'),
    });
    held.closers.push(() => api.close());
    const issuer = await openIssuer(config, watch);
    if (issuer !== undefined) held.closers.push(() => issuer.close());
    const broker = await openBroker(config, watch);
    if (broker !== undefined) held.closers.push(() => broker.close());
    const names = {
      space: config.SPACE_NAME,
      namespace: config.SPACE_NAMESPACE,
      systemNamespace: config.SYSTEM_NAMESPACE,
      servicesNamespace: config.SERVICES_NAMESPACE,
      hasObjectStore: broker !== undefined,
    };
    const signIn = new SignIn({
      sealed: new Sealed({ space: names.space, keys: () => keys.current(), now }),
      ended: new EndedSessions(),
      sessionSeconds: config.SESSION_MINUTES * 60,
      now,
      space: names.space,
      namespace: names.namespace,
      attemptsPerMinute: config.SIGN_INS_PER_MINUTE,
      review: (token) => reviewToken(api, account.current(), token),
      issuer,
    });
    const principalOf = principals(api, () => account.current());
    const callerOf = ({ proof }: Session): Caller =>
      'token' in proof ? proof : { token: account.current(), person: proof.person };
    const live = new LiveStreams({ kubernetes: api, callerOf, names, now });
    const app = createApp({
      names,
      origins: new Origins(config.ORIGINS),
      isSecure: config.TLS_CERT_FILE !== undefined,
      assets: readAssets(),
      signIn,
      kubernetes: api,
      callerOf,
      routes: broker === undefined ? ROUTES : [...ROUTES, ...credentialRoutes({ broker, principalOf })],
      countRepairs,
      live,
      log,
    });
    return {
      metrics: createMetrics(),
      listeners: {
        port: {
          name: 'control',
          port: config.LISTEN_PORT,
          served: { listener: app, drain: () => live.end() },
          // A session's cookie alone may have 4 KiB.
          limits: { maxHeaderSize: 16 * 1024 },
        },
      },
      upkeep: [],
      requestsMs: REQUESTS_END_MS,
      parts: undefined,
    };
  });
  return { port: ports.port, stop };
}

async function openIssuer(config: Config, watch: Watch): Promise<Issuer | undefined> {
  const { OIDC_ISSUER: url, OIDC_CLIENT_ID: clientId } = config;
  const { OIDC_CLIENT_SECRET_FILE: secretFile, OIDC_CA_FILE: caFile } = config;
  if (url === undefined || clientId === undefined) return undefined;
  const secret =
    secretFile === undefined ? undefined : await watch(secretFile, (text) => new Secret(text.trim()));
  return new Issuer({
    url,
    clientId,
    clientSecret: secret === undefined ? undefined : () => secret.current(),
    ca: caFile === undefined ? undefined : await readFile(caFile, 'utf8'),
    scope: config.OIDC_SCOPE,
    userClaim: config.OIDC_USER_CLAIM,
    groupsClaim: config.OIDC_GROUPS_CLAIM,
    prefix: config.OIDC_PREFIX,
    groups: config.OIDC_GROUPS,
  });
}

async function openBroker(config: Config, watch: Watch): Promise<CredentialBroker | undefined> {
  const { OBJECT_STORE_URL: url, OBJECT_STORE_CA_FILE: file } = config;
  if (url === undefined) return undefined;
  const ca = file === undefined ? undefined : await watch(file, String);
  return credentialBroker({ url, ca: ca && (() => ca.current()) });
}
