import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createHttp, type RequestListener } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Agent } from 'undici';
import { makeAuthority } from '../../testing/certificates.ts';
import { eventually } from '../../testing/eventually.ts';
import { freePort } from '../../testing/ports.ts';
import { formToken, storedSession } from '../session/session.ts';
import { Browser } from './browser.ts';
import { type Canaries, Lookout } from './canaries.ts';
import { unsealed } from './forged.ts';
import { startIssuer } from './issuer.ts';
import { type Store, startQuotingApi } from './quoting-api.ts';
import { inputDigest } from './subjects.ts';
import { type Replies, WHOLE } from './taken-over.ts';

const SCRIPT = new URL('../main.ts', import.meta.url).pathname;
export const CREDENTIALS = '/capsules/household/credentials';
export const ASSISTANT = '/capsules/household/assistants/post';
/** The lines of the log that are kept, to show why the program has ended. */
const LAST_LINES = 4_000;

async function listen(answer: RequestListener) {
  const server = createHttp(answer);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  return { server, url: `http://127.0.0.1:${port}` };
}

/** A gateway that puts the token with which it is asked into its answer. */
const quotingGateway: RequestListener = (asked, response) => {
  asked.resume();
  const token = asked.headers.authorization?.replace(/^Bearer /, '');
  const call = { host: token, ending: 'ok', count: 1, last_at: new Date(0).toISOString() };
  const more = { since: new Date(0).toISOString(), instance: token, trace_id: token };
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ calls: [call, { ...call, input: token }], forgotten: 0, ...more }));
};

/** The key of the console's listener is the test's to make, and a line of it the canary. */
const tlsKeyOf = (pem: string): string => pem.split('\n')[2] ?? '';

export type WatchedProgram = Awaited<ReturnType<typeof startWatchedProgram>>;

/**
 * The console as a program of its own, which somebody has signed in to who may do everything, with a broker that was taken
 * over, and an API server, a gateway and an issuer that quote what they are sent. Nothing of the test is in its memory: what
 * is found there, it kept.
 */
export async function startWatchedProgram(wanted: Omit<Canaries, 'tlsKey'>) {
  const directory = mkdtempSync(join(tmpdir(), 'space-watched-console-'));
  const authority = makeAuthority(directory, 'authority');
  const [ofApi, own] = ['api', 'localhost'].map((name) => authority.sign(name, ['DNS:localhost'])) as [
    ReturnType<typeof authority.sign>,
    ReturnType<typeof authority.sign>,
  ];
  const canaries: Canaries = { ...wanted, tlsKey: tlsKeyOf(readFileSync(own.key, 'utf8')) };
  const lookout = new Lookout(canaries);
  let told = WHOLE;
  const api = await startQuotingApi(ofApi, canaries);
  const broker = await listen((asked, response) => {
    asked.resume();
    const isAct = asked.method === 'POST' && asked.url?.endsWith('/list') !== true;
    response.writeHead(isAct ? told.status : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(isAct ? told.act : asked.method === 'GET' ? told.form : told.list));
  });
  const gateway = await listen(quotingGateway);
  const port = await freePort();
  const origin = `https://localhost:${port}`;
  const issuer = await startIssuer([`${origin}/sign-in/issuer/answer`], canaries.client);
  const file = (name: string, text: string) => {
    writeFileSync(join(directory, name), text, { mode: 0o600 });
    return join(directory, name);
  };
  const flags = ['--heapsnapshot-signal=SIGUSR2', `--diagnostic-dir=${directory}`];
  // Otherwise a long text is in the snapshot by its first 1,024 characters alone.
  const child = spawn(process.execPath, [...flags, '--heap-snapshot-string-limit=1000000000', SCRIPT], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...{ SPACE_NAME: 'home', SPACE_NAMESPACE: 'home', SYSTEM_NAMESPACE: 'home-system' },
      ...{ SERVICES_NAMESPACE: 'home-services', ORIGINS: origin, LISTEN_HOST: '127.0.0.1' },
      ...{ LISTEN_PORT: String(port), METRICS_PORT: '0', LOG_LEVEL: 'debug', SIGN_INS_PER_MINUTE: '100000' },
      ...{ TLS_CERT_FILE: own.cert, TLS_KEY_FILE: own.key },
      SESSION_KEYS_FILE: file('keys', canaries.sessionKeys),
      ...{ KUBERNETES_URL: api.url, KUBERNETES_CA_FILE: authority.cert },
      KUBERNETES_TOKEN_FILE: file('token', canaries.account),
      OBJECT_STORE_URL: broker.url,
      ...{ EGRESS_URL: gateway.url, EGRESS_OBSERVER_TOKEN_FILE: file('observer', canaries.observer) },
      ...{ OIDC_ISSUER: issuer.url, OIDC_CLIENT_ID: 'space', OIDC_CA_FILE: issuer.caFile },
      OIDC_CLIENT_SECRET_FILE: file('client', canaries.client),
    },
  });
  let last = '';
  for (const stream of [child.stdout, child.stderr]) {
    const logged = lookout.pieces('log');
    stream.setEncoding('utf8').on('data', (text: string) => {
      logged(text);
      last = (last + text).slice(-LAST_LINES);
    });
  }

  class WatchedBrowser extends Browser {
    override async once(...asked: Parameters<Browser['once']>) {
      const answer = await super.once(...asked);
      const { location, refresh, 'set-cookie': cookies, ...others } = answer.headers;
      lookout.look('history', JSON.stringify([location, refresh]));
      lookout.look('storage', JSON.stringify(cookies ?? ''));
      lookout.look('response', `${JSON.stringify(others)}${answer.html}`);
      return answer;
    }
    /** Without a look at what is on the page, which takes longer than the page itself. */
    async goes(...asked: Parameters<Browser['once']>): Promise<void> {
      const { status, headers, html } = await this.once(...asked);
      if (html.includes('was not sent by a page of the console')) throw new Error('a form was not taken');
      if (status === 303) await this.once('GET', String(headers['location']));
    }
  }
  const connect = { ca: readFileSync(authority.cert) };
  // The console ends connections that nothing comes over for a while; this side is the first to do so.
  const dispatcher = new Agent({ connect, keepAliveTimeout: 500, keepAliveMaxTimeout: 500 });
  const browser = new WatchedBrowser(origin, dispatcher);
  const isUp = async () => (await new Browser(origin, dispatcher).once('GET', '/healthz')).status === 200;
  const ended = once(child, 'close').then(() => {
    throw new Error(`the console ended: ${last}`);
  });
  const up = eventually(() => isUp().catch(() => false), { what: 'the console to answer' });
  await Promise.race([up, ended]);
  ended.catch(() => {});
  await browser.send(await browser.get('/sign-in'), '/sign-in', { token: canaries.token });
  const session = await unsealed(canaries, browser, 'session', storedSession);
  if (session === undefined) throw new Error('nobody has signed in');
  const { formKey } = session;

  const post = (action: string, fields: Readonly<Record<string, string>>) => {
    const body = new URLSearchParams({ ...fields, form_token: formToken(formKey, action) }).toString();
    return browser.goes('POST', action, body, { origin });
  };
  const snapshot = () => readdirSync(directory).find((name) => name.endsWith('.heapsnapshot'));

  return {
    ...{ origin, canaries, lookout },
    /** From now on the broker answers like this. */
    tell(answers: Replies): void {
      told = answers;
    },
    /** From now on this becomes of stored inputs. */
    keeps(store: Store): void {
      api.store = store;
    },
    /** Does one act on credential sets. */
    act: (name: string, fields: Readonly<Record<string, string>>): Promise<void> =>
      name === 'look' ? browser.goes('GET', CREDENTIALS) : post(`${CREDENTIALS}/${name}`, fields),
    /** Enters a value, and looks at the page of its Assistant. */
    async enter(): Promise<void> {
      const before = api.sent;
      const seen = { definition: inputDigest(), secret: 'household.post.bank/value' };
      await post(`${ASSISTANT}/inputs/bank`, { ...seen, value: canaries.input });
      if (api.sent === before) throw new Error('the value came to nobody');
      await browser.goes('GET', ASSISTANT);
    },
    /** Somebody else signs in by the issuer, or is refused with all that was sent to it. */
    async byIssuer(isQuoting: boolean): Promise<void> {
      Object.assign(issuer, { isQuoting, claims: { sub: 'tom' } });
      const other = new WatchedBrowser(origin, dispatcher);
      const { headers } = await other.once('GET', '/sign-in/issuer');
      const { status } = await other.once('GET', await issuer.goThrough(String(headers['location'])));
      if (status !== (isQuoting ? 502 : 200)) throw new Error(`signing in was answered with ${status}`);
    },
    /** Searches what the program holds, once it has done something else. */
    async search(): Promise<void> {
      for (const path of ['/healthz', '/sign-in', '/healthz']) await browser.once('GET', path);
      child.kill('SIGUSR2');
      await eventually(() => snapshot() !== undefined, { what: 'the snapshot of the heap' });
      // It is written before anything else is answered.
      await isUp();
      const path = join(directory, snapshot() ?? '');
      const held = lookout.pieces('heap');
      for await (const chunk of createReadStream(path, 'latin1')) held(String(chunk));
      rmSync(path);
    },
    async close(): Promise<void> {
      const closed = once(child, 'close').catch(() => {});
      child.kill();
      await Promise.all([closed, dispatcher.destroy(), issuer.stop()]);
      for (const { server } of [broker, gateway]) {
        server.closeAllConnections();
        server.close();
      }
      api.close();
      rmSync(directory, { recursive: true });
    },
  };
}
