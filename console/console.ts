import { readFile } from 'node:fs/promises';
import {
  closeNow,
  createMetrics,
  type Logger,
  listen,
  parseKeys,
  portOf,
  Secret,
  serveMetrics,
  shutDown,
  watchFile,
  watchTls,
} from '@space/broker-kit';
import { createApp } from './app.ts';
import { type CredentialBroker, credentialBroker } from './broker/client.ts';
import { principals } from './broker/principal.ts';
import type { Config } from './config.ts';
import { Stylesheet } from './http/assets.ts';
import { Origins } from './http/origin.ts';
import { kubernetes } from './kubernetes/client.ts';
import { reviewToken } from './kubernetes/token-review.ts';
import { credentialRoutes } from './pages/credentials.ts';
import { countRepairs } from './pages/repairs.ts';
import { ROUTES } from './routes.ts';
import { Sealed } from './session/sealed.ts';
import { EndedSessions } from './session/session.ts';
import { SignIn } from './session/sign-in.ts';

export interface Console {
  readonly port: number;
  stop(): Promise<boolean>;
}

/** Keys, account, listener: what of these is missing stops the start. */
export async function startConsole(options: {
  readonly config: Config;
  readonly log: Logger;
  readonly now?: () => Date;
}): Promise<Console> {
  const { config, log, now = () => new Date() } = options;
  const keys = await watchFile(config.SESSION_KEYS_FILE, {
    parse: (text) => parseKeys(text, 'SESSION_KEYS_FILE'),
  });
  const account = await watchFile(config.KUBERNETES_TOKEN_FILE, { parse: (text) => new Secret(text.trim()) });
  const api = kubernetes({
    url: config.KUBERNETES_URL,
    ca: await readFile(config.KUBERNETES_CA_FILE, 'utf8'),
  });
  const names = {
    space: config.SPACE_NAME,
    namespace: config.SPACE_NAMESPACE,
    systemNamespace: config.SYSTEM_NAMESPACE,
    servicesNamespace: config.SERVICES_NAMESPACE,
    hasObjectStore: config.OBJECT_STORE_URL !== undefined,
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
  });
  const broker = await openBroker(config);
  const principalOf = principals(api, () => account.current());
  const { TLS_CERT_FILE: cert, TLS_KEY_FILE: key } = config;
  const tls =
    cert === undefined || key === undefined
      ? undefined
      : await watchTls({ cert, key }, (material) => listener.useTls(material));
  const app = createApp({
    names,
    origins: new Origins(config.ORIGINS),
    isSecure: tls !== undefined,
    stylesheet: Stylesheet.read(),
    signIn,
    kubernetes: api,
    routes: broker === undefined ? ROUTES : [...ROUTES, ...credentialRoutes({ broker, principalOf })],
    countRepairs,
    log,
  });
  const metrics = createMetrics();
  const listener = await listen(
    { listener: app, drain: () => {} },
    {
      name: 'control',
      host: config.LISTEN_HOST,
      port: config.LISTEN_PORT,
      tls: tls?.current(),
      // A session's cookie alone may have 4 KiB.
      limits: { maxHeaderSize: 16 * 1024 },
      connections: { total: config.CONNECTIONS, perAddress: config.CONNECTIONS_PER_ADDRESS },
      log,
      metrics,
    },
  );
  const metricsServer = await serveMetrics(metrics.registry, {
    host: config.LISTEN_HOST,
    port: config.METRICS_PORT,
  });
  log.info({ port: portOf(listener.server) }, 'listening');
  return {
    port: portOf(listener.server),
    stop: () =>
      shutDown(
        [
          { name: 'listener', timeoutMs: 10_000, run: () => listener.close() },
          { name: 'metrics', timeoutMs: 2_000, run: () => closeNow(metricsServer) },
          {
            name: 'files and connections',
            timeoutMs: 2_000,
            run: async () => {
              keys.close();
              account.close();
              tls?.close();
              await api.close();
              await broker?.close();
            },
          },
        ],
        log,
      ),
  };
}

async function openBroker(config: Config): Promise<CredentialBroker | undefined> {
  const { OBJECT_STORE_URL: url, OBJECT_STORE_CA_FILE: ca } = config;
  if (url === undefined) return undefined;
  return credentialBroker({ url, ...(ca === undefined ? {} : { ca: await readFile(ca, 'utf8') }) });
}
