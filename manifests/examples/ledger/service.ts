import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { Pool } from 'pg';
import { about } from './about.ts';
import { type Api, answer } from './api.ts';
import { Refusal, replyOf, send } from './http.ts';
import { createJournal } from './journal.ts';
import { migrate } from './migrations.ts';
import { createBank } from './rates.ts';
import { createStatements } from './statements.ts';

export interface Options {
  readonly databaseUrl: string;
  readonly port: number;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly log: (event: object) => void;
  readonly now?: () => Date;
  /** How long it waits for the database before it gives up. */
  readonly patienceMs?: number;
  /** How long it waits for a connection, and for the answer to a statement. */
  readonly answerMs?: number;
}

export interface Service {
  readonly port: number;
  /** Lets requests under way end, takes no new ones, and closes the database. */
  stop(): Promise<void>;
}

/** Two replicas, and two more while an update rolls out, stay below the role's limit of five. */
const CONNECTIONS = 1;
const ANSWER_WITHIN_MS = 10_000;
/** A server that is there ends a statement itself, and its connection remains of use. */
const GRACE_MS = 1_000;
const DRAIN_MS = 10_000;
/**
 * Longer than a proxy before this one keeps a connection that is idle (90 s in Kubernetes' API server): a request that
 * comes as this side closes would be lost, and a proxy sends no entry a second time.
 */
const IDLE_MS = 100_000;

/** Waits for the database, brings its schema up to date, and only then listens: who answers is of use. */
export async function startService(options: Options): Promise<Service> {
  const { log, now = () => new Date() } = options;
  const pool = openPool(options);
  try {
    await migrateWhenReady(pool, options);
    const api: Api = {
      journal: createJournal(pool),
      statements: createStatements(options.environment),
      bank: createBank(options.environment),
      about: about(options.environment),
      now,
    };
    const server = createServer((request, response) => {
      void handle(api, request, response, log, () => server.listening);
    });
    server.requestTimeout = ANSWER_WITHIN_MS;
    server.headersTimeout = ANSWER_WITHIN_MS;
    server.keepAliveTimeout = IDLE_MS;
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject).listen(options.port, resolve);
    });
    const { port } = server.address() as AddressInfo;
    return { port, stop: () => drain(server).then(() => pool.end()) };
  } catch (error) {
    await pool.end();
    throw error;
  }
}

function openPool({ databaseUrl, log, answerMs = ANSWER_WITHIN_MS }: Options): Pool {
  const pool = new Pool({
    connectionString: databaseUrl,
    max: CONNECTIONS,
    connectionTimeoutMillis: answerMs,
    statement_timeout: answerMs,
    // A server whose node is lost does not even say that a statement took too long.
    query_timeout: answerMs + GRACE_MS,
    application_name: 'ledger',
  });
  // An error event without a listener would end this process when the server closes a connection that is idle,
  pool.on('error', (error) => log({ event: 'connection lost', error: error.message }));
  // or one that is in use. There the statement fails as well, and its caller is told.
  pool.on('connect', (client) => client.on('error', () => undefined));
  return pool;
}

async function migrateWhenReady(pool: Pool, { log, patienceMs = 120_000 }: Options): Promise<void> {
  const deadline = performance.now() + patienceMs;
  for (let wait = 100; ; wait = Math.min(wait * 2, 2_000)) {
    try {
      return await migrate(pool);
    } catch (error) {
      if (!isPassing(error) || performance.now() > deadline) throw error;
      log({ event: 'waiting for the database', code: (error as { code?: unknown }).code });
      await pause(wait);
    }
  }
}

/** Not there yet, starting, shutting down or full; anything else will not get better by waiting. */
function isPassing(error: unknown): boolean {
  const { code, message } = error as { readonly code?: string; readonly message?: string };
  if (code === undefined) return /timeout|terminated/.test(message ?? '');
  return /^(ECONN|EHOST|ENET|ETIMEDOUT|EAI_|ENOTFOUND|EPIPE|57P0|53|08)/.test(code);
}

async function handle(
  api: Api,
  request: IncomingMessage,
  response: ServerResponse,
  log: Options['log'],
  goesOn: () => boolean,
) {
  const started = performance.now();
  const reply = await answer(api, request).catch((error: unknown) => {
    if (error instanceof Refusal) return replyOf(error);
    log({ event: 'failed', error: error instanceof Error ? error.message : String(error) });
    return replyOf(new Refusal(503, 'unavailable', 'the ledger cannot answer now; try again'));
  });
  // A server that drains waits for no next request, and the rest of a body that was not read is none.
  if (!request.complete || !goesOn()) response.setHeader('connection', 'close');
  send(response, reply);
  const path = (request.url ?? '').split('?')[0];
  if (path !== '/healthz') {
    const took = Math.round(performance.now() - started);
    log({ event: 'answered', method: request.method, path, status: reply.status, took_ms: took });
  }
}

async function drain(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => {
    server.close(() => resolve());
  });
  server.closeIdleConnections();
  const late = setTimeout(() => server.closeAllConnections(), DRAIN_MS);
  await closed;
  clearTimeout(late);
}
