/**
 * An Assistant that uses everything a Space provides, in an open loop: each request begins when it is due, also while others are
 * unanswered. It stores the results in its own database, and ends when all requests are answered.
 */
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { Pool } from 'pg';
import { createTallies } from './tally.ts';

const { DATABASE_URL, OBJECT_STORE_URL, OBJECT_STORE_TOKEN_FILE, EGRESS_TOKEN, INPUT_BANK_URL } = process.env;
const { HTTPS_PROXY = '', PORT = '8080', TUNNEL_HOST = '', HOSTNAME = '' } = process.env;
/** Requests a second of each kind. */
const RATES: Readonly<Record<string, number>> = JSON.parse(process.env['LOAD_RATES'] ?? '{}');
const BODY = 'x'.repeat(1_024);
const OBJECTS = 64;
const PATIENCE_MS = 30_000;
const TICK_MS = 50;
/** The kubelet replaces the token long before it expires. */
const TOKEN_MS = 5_000;

// During a rollout two pods share the role's five connections, and one is left for reading the tallies.
const pool = new Pool({ connectionString: DATABASE_URL, max: 2, idleTimeoutMillis: 0 });
pool.on('error', () => undefined);

const tallies = createTallies();
// It is not read for each request, since gVisor opens a file by another process.
let token = '';
let tokenReadAt = Number.NEGATIVE_INFINITY;
async function tokenOf(): Promise<string> {
  if (performance.now() - tokenReadAt > TOKEN_MS) {
    tokenReadAt = performance.now();
    token = (await readFile(OBJECT_STORE_TOKEN_FILE ?? '', 'utf8')).trim();
  }
  return token;
}

async function answered(url: string, init: RequestInit, status: number): Promise<void> {
  const reply = await fetch(url, { ...init, signal: AbortSignal.timeout(PATIENCE_MS) });
  const text = await reply.text();
  // Without the trace id, so that equal answers are counted together.
  if (reply.status !== status)
    throw new Error(`${reply.status} ${text.replace(/,?"trace_id".*/s, '').slice(0, 80)}`);
}

let number = 0;
const KINDS: Readonly<Record<string, () => Promise<unknown>>> = {
  sql: () => pool.query('INSERT INTO hit (number) VALUES ($1)', [number]),
  put: async () =>
    answered(
      `${OBJECT_STORE_URL}/v1/objects/data/zero-${number % OBJECTS}`,
      { method: 'PUT', body: BODY, headers: { authorization: `Bearer ${await tokenOf()}` } },
      200,
    ),
  get: async () =>
    answered(
      `${OBJECT_STORE_URL}/v1/objects/data/known`,
      { headers: { authorization: `Bearer ${await tokenOf()}` } },
      200,
    ),
  input: () =>
    answered(
      `${INPUT_BANK_URL}/v1/rates?base=EUR`,
      { headers: { authorization: `Bearer ${EGRESS_TOKEN}` } },
      200,
    ),
  tunnel: throughTunnel,
};

/** Sends one request through a tunnel of its own. */
function throughTunnel(): Promise<void> {
  const proxy = new URL(HTTPS_PROXY);
  const credential = Buffer.from(`${proxy.username}:${proxy.password}`).toString('base64');
  return new Promise((resolve, reject) => {
    const raw = connect(Number(proxy.port), proxy.hostname, () =>
      raw.write(
        `CONNECT ${TUNNEL_HOST}:443 HTTP/1.1\r\nhost: ${TUNNEL_HOST}\r\nproxy-authorization: Basic ${credential}\r\n\r\n`,
      ),
    );
    const fail = (why: string | Error) => {
      reject(why instanceof Error ? why : new Error(why));
      raw.destroy();
    };
    raw.setTimeout(PATIENCE_MS, () => fail('no answer'));
    raw.on('error', fail).on('close', () => fail('closed'));
    raw.once('data', (head: Buffer) => {
      if (!head.toString('latin1').startsWith('HTTP/1.1 200'))
        return fail(head.toString('latin1').slice(0, 40));
      // The certificate does not matter, since only the gateway is tested.
      const socket = connectTls({ socket: raw, servername: TUNNEL_HOST, rejectUnauthorized: false });
      socket.on('error', fail).once('data', () => {
        resolve();
        socket.destroy();
      });
      socket.write(`GET / HTTP/1.1\r\nhost: ${TUNNEL_HOST}\r\nconnection: close\r\n\r\n`);
    });
  });
}

let underWay = 0;
function begin(kind: string, ask: () => Promise<unknown>): void {
  underWay += 1;
  number += 1;
  const begun = performance.now();
  ask()
    .then(
      () => tallies.saw(kind, performance.now() - begun),
      (error: unknown) => tallies.saw(kind, performance.now() - begun, error),
    )
    .finally(() => {
      underWay -= 1;
    });
}

async function handOn(): Promise<void> {
  const taken = tallies.take();
  const rows = [...taken].map(([kind, tally]) => ({ pod: HOSTNAME, kind, ...tally }));
  if (rows.length === 0) return;
  const statement = `INSERT INTO tally SELECT now(), * FROM jsonb_to_recordset($1)
    AS t(pod text, kind text, ok int, failed int, "longestMs" float, errors jsonb)`;
  await pool.query(statement, [JSON.stringify(rows)]).catch(() => tallies.giveBack(taken));
}

await pool.query(`CREATE TABLE IF NOT EXISTS hit (number bigint);
  CREATE TABLE IF NOT EXISTS tally (at timestamptz, pod text, kind text, ok int, failed int, longest_ms float, errors jsonb)`);
await KINDS['get']?.().catch(() => undefined);
await answered(
  `${OBJECT_STORE_URL}/v1/objects/data/known`,
  { method: 'PUT', body: BODY, headers: { authorization: `Bearer ${await tokenOf()}` } },
  200,
);

let ends = false;
process.once('SIGTERM', () => {
  ends = true;
});
const listener = createServer((_, reply) => reply.end('load')).listen(Number(PORT));

const begun = performance.now();
const done = Object.fromEntries(Object.keys(RATES).map((kind) => [kind, 0]));
let handing = Promise.resolve();
let handedAt = begun;
while (!ends) {
  const now = performance.now();
  for (const [kind, rate] of Object.entries(RATES)) {
    const ask = KINDS[kind];
    if (ask === undefined) throw new Error(`LOAD_RATES has the unknown kind ${kind}`);
    // Requests that became due while the process did not run begin now, since the loop is open.
    for (
      const due = ((now - begun) / 1_000) * rate;
      (done[kind] ?? 0) < due;
      done[kind] = (done[kind] ?? 0) + 1
    )
      begin(kind, ask);
  }
  if (now - handedAt > 1_000) {
    handedAt = now;
    handing = handing.then(handOn);
  }
  await pause(TICK_MS);
}
while (underWay > 0) await pause(TICK_MS);
await handing;
await handOn();
listener.close();
await pool.end();
