import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createHttp, type ServerResponse } from 'node:http';
import { createSecureServer, type Http2SecureServer, type Http2ServerResponse } from 'node:http2';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Agent, request } from 'undici';
import { makeAuthority } from '../../testing/certificates.ts';
import { eventually } from '../../testing/eventually.ts';
import { freePort } from '../../testing/ports.ts';
import { Browser } from './browser.ts';
import { formTokenOf } from './forged.ts';
import { type Replies, WHOLE } from './taken-over.ts';

/** Texts that are to be nowhere, by whose they are; but `account`, the console's own token, which it holds while it runs. */
export type Canaries = Readonly<Record<'broker' | 'person' | 'principal' | 'token' | 'account', string>>;

/** Places that a person, or who comes after them, could find a text in. */
export const PLACES = ['response', 'history', 'storage', 'log', 'heap'] as const;
export type Found = Record<(typeof PLACES)[number], number>;

const SCRIPT = new URL('../main.ts', import.meta.url).pathname;
const ROOT = '/capsules/household/credentials';
const BOOKMARK = JSON.stringify({ type: 'BOOKMARK', object: { metadata: { resourceVersion: '2' } } });

const answersOf = ({ principal }: Canaries): Readonly<Record<string, unknown>> => ({
  tokenreviews: { status: { authenticated: true, user: { username: 'mia' } } },
  selfsubjectaccessreviews: { status: { allowed: true } },
  'capsule-household-objectstore': { data: { principal: Buffer.from(principal).toString('base64') } },
});

async function listen(server: ReturnType<typeof createHttp> | Http2SecureServer): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  return typeof address === 'object' ? (address?.port ?? 0) : 0;
}

/**
 * The console as a program of its own, which somebody has signed in to who may do everything, with a broker that was taken
 * over. Nothing of the test is in its memory: what is found there, it kept.
 */
export async function startWatchedProgram(canaries: Canaries) {
  const directory = mkdtempSync(join(tmpdir(), 'space-watched-console-'));
  const authority = makeAuthority(directory, 'authority');
  const { cert, key } = authority.sign('localhost', ['DNS:localhost']);
  const known = answersOf(canaries);
  let told = WHOLE;
  const reply = (response: ServerResponse | Http2ServerResponse, json: unknown, status = 200) => {
    response.statusCode = status;
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(json));
  };
  // HTTP/2 where it is asked for, and watches that stay open, as the API server has them.
  const secure = { cert: readFileSync(cert), key: readFileSync(key), allowHTTP1: true };
  const api = createSecureServer(secure, (asked, response) => {
    asked.resume();
    if (asked.url?.includes('watch=true')) return void response.writeHead(200).write(`${BOOKMARK}\n`);
    const last = /([^/?]+)(?:\?|$)/.exec(asked.url ?? '')?.[1] ?? '';
    reply(response, known[last] ?? { columnDefinitions: [], rows: [] });
  });
  const broker = createHttp((asked, response) => {
    asked.resume();
    const isAct = asked.method === 'POST' && !asked.url?.endsWith('/list');
    if (isAct) reply(response, told.act, told.status);
    else reply(response, asked.method === 'GET' ? told.form : told.list);
  });
  const [apiPort, brokerPort, port] = [await listen(api), await listen(broker), await freePort()];
  const sessionKeys = randomBytes(32).toString('base64url');
  const file = (name: string, text: string) => {
    writeFileSync(join(directory, name), text, { mode: 0o600 });
    return join(directory, name);
  };
  const origin = `http://localhost:${port}`;
  const flags = ['--heapsnapshot-signal=SIGUSR2', `--diagnostic-dir=${directory}`];
  // Otherwise a long text is in the snapshot by its first 1,024 characters alone.
  const child = spawn(process.execPath, [...flags, '--heap-snapshot-string-limit=1000000000', SCRIPT], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...{ SPACE_NAME: 'home', SPACE_NAMESPACE: 'home', SYSTEM_NAMESPACE: 'home-system' },
      ...{ SERVICES_NAMESPACE: 'home-services', ORIGINS: origin, LISTEN_HOST: '127.0.0.1' },
      ...{ LISTEN_PORT: String(port), METRICS_PORT: '0', LOG_LEVEL: 'debug' },
      SESSION_KEYS_FILE: file('keys', sessionKeys),
      KUBERNETES_URL: `https://localhost:${apiPort}`,
      KUBERNETES_CA_FILE: authority.cert,
      KUBERNETES_TOKEN_FILE: file('token', canaries.account),
      OBJECT_STORE_URL: `http://127.0.0.1:${brokerPort}`,
    },
  });
  const log: string[] = [];
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => void log.push(text));

  const found = Object.fromEntries(
    Object.keys(canaries).map((whose) => [whose, Object.fromEntries(PLACES.map((place) => [place, 0]))]),
  ) as Record<keyof Canaries, Found>;
  const look = (place: keyof Found, text: string) => {
    for (const [whose, canary] of Object.entries(canaries))
      if (text.includes(canary)) found[whose as keyof Canaries][place] += 1;
  };

  class WatchedBrowser extends Browser {
    override async once(...asked: Parameters<Browser['once']>) {
      const answer = await super.once(...asked);
      const { location, refresh, 'set-cookie': cookies, ...others } = answer.headers;
      look('history', JSON.stringify([location, refresh]));
      look('storage', JSON.stringify(cookies ?? ''));
      look('response', `${JSON.stringify(others)}${answer.html}`);
      return answer;
    }
  }
  // The console ends connections that nothing comes over for a while; this side is the first to do so.
  const dispatcher = new Agent({ keepAliveTimeout: 500, keepAliveMaxTimeout: 500 });
  const browser = new WatchedBrowser(origin, dispatcher);
  const isUp = async () => (await request(`${origin}/healthz`)).statusCode === 200;
  const ended = once(child, 'close').then(() => {
    throw new Error(`the console ended: ${log.join('')}`);
  });
  const up = eventually(() => isUp().catch(() => false), { what: 'the console to answer' });
  await Promise.race([up, ended]);
  ended.catch(() => {});
  await browser.send(await browser.get('/sign-in'), '/sign-in', { token: canaries.token });

  return {
    found,
    /** Does one act, while the broker answers like this. */
    async act(name: string, answers: Replies, fields: Readonly<Record<string, string>>): Promise<void> {
      told = answers;
      if (name === 'look') return void (await browser.get(ROOT));
      const action = `${ROOT}/${name}`;
      const form_token = await formTokenOf({ sessionKeys }, browser, action);
      await browser.post(action, { ...fields, form_token });
    },
    /** Searches what the program has written and what it holds. */
    async search(): Promise<void> {
      told = WHOLE;
      for (const path of ['/healthz', '/sign-in', '/healthz'])
        await request(`${origin}${path}`).then(({ body }) => body.dump());
      look('log', log.join(''));
      child.kill('SIGUSR2');
      const snapshot = () => readdirSync(directory).find((name) => name.endsWith('.heapsnapshot'));
      await eventually(() => snapshot() !== undefined, { what: 'the snapshot of the heap' });
      // It is written before anything else is answered.
      await isUp();
      let rest = '';
      for await (const chunk of createReadStream(join(directory, snapshot() ?? ''), 'latin1')) {
        const text = rest + chunk;
        look('heap', text);
        rest = text.slice(-64);
      }
    },
    async close() {
      const closed = once(child, 'close').catch(() => {});
      child.kill();
      await Promise.all([closed, dispatcher.destroy()]);
      broker.closeAllConnections();
      for (const server of [api, broker]) server.close();
      rmSync(directory, { recursive: true });
    },
  };
}
