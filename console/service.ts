import {
  createMetrics,
  keepFile,
  type Logger,
  parseKeys,
  type Resources,
  Secret,
  watched,
} from '@space/broker-kit';
import { startShell } from '@space/broker-kit/service';
import type { Express } from 'express';
import { createApp } from './app.ts';
import { type Authority, parseCertificate } from './authority.ts';
import { type CredentialBroker, credentialBroker } from './broker/client.ts';
import { principals } from './broker/principal.ts';
import type { Config } from './config.ts';
import { type CallsOf, gatewayCalls } from './gateway/calls.ts';
import { readAssets } from './http/assets.ts';
import { Origins } from './http/origin.ts';
import { type Caller, type Kubernetes, kubernetes } from './kubernetes/client.ts';
import { KeptLists } from './kubernetes/kept-lists.ts';
import { reviewToken } from './kubernetes/token-review.ts';
import { AUTHORITY, type CertificatesOf, certificatesOf } from './machinery/certificates.ts';
import { machineryOf } from './machinery/machinery.ts';
import { setsOf } from './pages/credential-sets.ts';
import { LiveStreams } from './pages/live-streams.ts';
import { countRepairs } from './pages/repairs.ts';
import { everyRoute } from './routes.ts';
import type { Issuer } from './session/issuer.ts';
import { KeptForms } from './session/kept-forms.ts';
import { Sealed } from './session/sealed.ts';
import { EndedSessions, type Session } from './session/session.ts';
import { SignIn } from './session/sign-in.ts';
import type { SpaceNames } from './visit.ts';

export interface Console {
  readonly port: number;
  /** What it answers. */
  readonly app: Express;
  stop(): Promise<boolean>;
}

const REQUESTS_END_MS = 10_000;

/** Mounted files, each with its present content. */
interface Files {
  follow<T>(path: string, parse: (text: string) => T): Promise<() => T>;
  authority(path: string | undefined): Promise<Authority | undefined>;
}

/** Milliseconds that the console waits, each by default as long as a person would. Tests on a busy machine wait longer. */
export interface Patience {
  /** For an answer of the API server. */
  readonly apiMs?: number;
  /** For the turn of a request. */
  readonly turnMs?: number;
  /** For what a page shows of other services beside its subject. */
  readonly asideMs?: number;
  /** For running requests, when it ends. */
  readonly requestsMs?: number;
}

export interface ConsoleOptions {
  readonly config: Config;
  readonly log: Logger;
  readonly now?: () => Date;
  readonly patience?: Patience;
  /** The folder of style and script, if it is another one than usual. */
  readonly html?: string;
}

/** Opens keys, account, issuer and listener; the start fails if one of them is missing. */
export async function startConsole({
  config,
  log,
  now = () => new Date(),
  html,
  patience: { apiMs, turnMs, asideMs, requestsMs = REQUESTS_END_MS } = {},
}: ConsoleOptions): Promise<Console> {
  const { ports, parts, stop } = await startShell(config, log, async (resources) => {
    const files = filesOf(resources, log);
    const keys = await files.follow(config.SESSION_KEYS_FILE, (text) => parseKeys(text, 'SESSION_KEYS_FILE'));
    const account = await files.follow(config.KUBERNETES_TOKEN_FILE, (text) => new Secret(text.trim()));
    const authority = await files.authority(config.KUBERNETES_CA_FILE);
    const api = kubernetes({ url: config.KUBERNETES_URL, authority, timeoutMs: apiMs });
    resources.closers.push(() => api.close());
    const issuer = await openIssuer(config, files);
    if (issuer !== undefined) resources.closers.push(() => issuer.close());
    const broker = await openBroker(config, files);
    const credentials = broker && { broker, principalOf: principals(api, account) };
    const names = namesIn(config, broker !== undefined);
    const sealed = new Sealed({ space: names.space, keys, now });
    const signIn = signInFor(config, { api, account, issuer, sealed, now });
    const callerOf = ({ proof }: Session): Caller =>
      'token' in proof ? proof : { token: account(), person: proof.person };
    const lists = new KeptLists(api);
    resources.closers.push(() => lists.end());
    const live = new LiveStreams({ kubernetes: api, lists, callerOf, names, now });
    const app = createApp({
      names,
      origins: new Origins(config.ORIGINS),
      isSecure: config.TLS_CERT_FILE !== undefined,
      assets: readAssets(html),
      signIn,
      kept: new KeptForms(sealed),
      kubernetes: api,
      lists,
      callerOf,
      routes: everyRoute({ now, credentials }),
      countRepairs,
      live,
      setsOf: credentials === undefined ? undefined : setsOf(credentials, asideMs),
      machineryOf: machineryOf({
        sandbox: { runtimeClass: config.SANDBOX_RUNTIME_CLASS, handler: config.SANDBOX_HANDLER },
        certificatesOf: await openCertificates(config, files, now, asideMs),
        now,
      }),
      callsOf: await openGateway(config, files, asideMs),
      turnMs,
      now,
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
      requestsMs,
      parts: { app },
    };
  });
  return { port: ports.port, app: parts.app, stop };
}

const namesIn = (config: Config, hasObjectStore: boolean): SpaceNames => ({
  space: config.SPACE_NAME,
  namespace: config.SPACE_NAMESPACE,
  systemNamespace: config.SYSTEM_NAMESPACE,
  servicesNamespace: config.SERVICES_NAMESPACE,
  hasObjectStore,
});

interface SignInParts {
  readonly api: Kubernetes;
  readonly account: () => Secret<string>;
  readonly issuer: Issuer | undefined;
  readonly sealed: Sealed;
  readonly now: () => Date;
}

function signInFor(config: Config, { api, account, issuer, sealed, now }: SignInParts): SignIn {
  return new SignIn({
    sealed,
    ended: new EndedSessions(),
    sessionSeconds: config.SESSION_MINUTES * 60,
    now,
    space: config.SPACE_NAME,
    namespace: config.SPACE_NAMESPACE,
    attemptsPerMinute: config.SIGN_INS_PER_MINUTE,
    review: (token) => reviewToken(api, account(), token),
    issuer,
  });
}

function filesOf(resources: Resources, log: Logger): Files {
  const follow: Files['follow'] = async (path, parse) => {
    const file = keepFile(resources, await watched(path, parse, log));
    return () => file.current();
  };
  return {
    follow,
    authority: async (path) => (path === undefined ? undefined : follow(path, parseCertificate)),
  };
}

async function openIssuer(config: Config, files: Files): Promise<Issuer | undefined> {
  const { OIDC_ISSUER: url, OIDC_CLIENT_ID: clientId, OIDC_CLIENT_SECRET_FILE: secretFile } = config;
  if (url === undefined || clientId === undefined) return undefined;
  // If people sign in only by tokens, the code for issuers is not loaded.
  const { Issuer } = await import('./session/issuer.ts');
  return new Issuer({
    url,
    clientId,
    clientSecret:
      secretFile === undefined
        ? undefined
        : await files.follow(secretFile, (text) => new Secret(text.trim())),
    authority: await files.authority(config.OIDC_CA_FILE),
    scope: config.OIDC_SCOPE,
    userClaim: config.OIDC_USER_CLAIM,
    groupsClaim: config.OIDC_GROUPS_CLAIM,
    prefix: config.OIDC_PREFIX,
    groups: config.OIDC_GROUPS,
  });
}

async function openBroker(config: Config, files: Files): Promise<CredentialBroker | undefined> {
  const { OBJECT_STORE_URL: url, OBJECT_STORE_CA_FILE: file } = config;
  return url === undefined ? undefined : credentialBroker({ url, trust: await trustOf(files, file) });
}

async function openGateway(config: Config, files: Files, timeoutMs?: number): Promise<CallsOf | undefined> {
  const { EGRESS_URL: url, EGRESS_SERVER_NAME: name, EGRESS_CA_FILE: file } = config;
  const { EGRESS_OBSERVER_TOKEN_FILE: tokenFile } = config;
  if (url === undefined || tokenFile === undefined) return undefined;
  // During an exchange there are two; the first one is the new one, which the gateway knows, too.
  const token = await files.follow(tokenFile, (text) => new Secret(text.trim().split('\n', 1)[0] ?? ''));
  const trust = await trustOf(files, file);
  const named = trust && { ...trust, ...(name === undefined ? {} : { name }) };
  return gatewayCalls({ url, token, trust: named, timeoutMs });
}

/** Returns the present authority for clients of the Space's services. */
async function trustOf(files: Files, path: string | undefined) {
  const authority = await files.authority(path);
  return authority && { readCa: async () => authority() };
}

/**
 * Assembles what is known of the Space's certificates: mounted files, handshakes, and the list of the program of keys.
 */
async function openCertificates(
  config: Config,
  files: Files,
  now: () => Date,
  answerMs?: number,
): Promise<CertificatesOf> {
  const pem = async (of: string, path: string | undefined) => {
    if (path === undefined) return [];
    return [{ of, read: await files.follow(path, parseCertificate) }];
  };
  const peer = async (of: string, url: string | undefined, ca: string | undefined, name?: string) =>
    url === undefined ? [] : [{ of, url, name, authority: await files.authority(ca) }];
  const { OBJECT_STORE_CA_FILE: brokerCa, EGRESS_CA_FILE: gatewayCa } = config;
  return certificatesOf({
    now,
    answerMs,
    names: namesIn(config, config.OBJECT_STORE_URL !== undefined),
    services: config.CERTIFICATES,
    signed: config.CERTIFICATES_FILE,
    own: [...(await pem(AUTHORITY, brokerCa ?? gatewayCa)), ...(await pem('console', config.TLS_CERT_FILE))],
    peers: [
      ...(await peer('objectstore-broker', config.OBJECT_STORE_URL, brokerCa)),
      ...(await peer('platform-assistant-egress', config.EGRESS_URL, gatewayCa, config.EGRESS_SERVER_NAME)),
    ],
  });
}
