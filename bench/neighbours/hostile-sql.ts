import { Socket } from 'node:net';
import pg from 'pg';
import type { Act } from './acts.ts';
import { atRate, type HostileRun, sleep } from './doing.ts';

type SqlAct = Extract<Act, { readonly url: string }>;

const PAUSE_MS = 200;

export async function doSql(act: SqlAct, doing: HostileRun): Promise<void> {
  if (act.kind === 'logins') {
    atRate(act.perSecond, doing, () => opened(act.url, doing), 10_000);
    return;
  }
  const one = act.kind === 'sql' ? () => repeat(act, doing) : () => neverRead(act, doing);
  for (let i = 0; i < act.sessions; i += 1) void one();
  await sleep(500);
}

/** Opens a session as the tenant; counts it, or the error that refused or ended it. */
async function opened(
  connectionString: string,
  { count, signal }: HostileRun,
  stream?: Socket,
): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString,
    connectionTimeoutMillis: 30_000,
    ...(stream ? { stream: () => stream } : {}),
  });
  client.on('error', () => count('session ended'));
  try {
    await client.connect();
    count('sessions');
  } catch (error) {
    count(codeOf(error));
    throw error;
  }
  signal.addEventListener('abort', () => void client.end().catch(() => undefined));
  return client;
}

async function repeat(act: Extract<Act, { kind: 'sql' }>, doing: HostileRun): Promise<void> {
  while (!doing.signal.aborted) {
    try {
      const client = await opened(act.url, doing);
      do {
        for (const statement of act.statements) {
          await client.query(statement);
          doing.count('statements');
        }
      } while (!act.once && !doing.signal.aborted);
      // Open transactions and locks stay until the server ends the session.
      await new Promise((resolve) => client.once('end', resolve));
    } catch (error) {
      doing.count(codeOf(error));
      await sleep(PAUSE_MS);
    }
  }
}

/**
 * A client that stops reading; `psql` would continue to read into its memory. It does not notice either that its session
 * was ended, so it opens further ones, as many as its role may have.
 */
async function neverRead(act: Extract<Act, { kind: 'unread' }>, doing: HostileRun): Promise<void> {
  while (!doing.signal.aborted) {
    try {
      const stream = new Socket();
      const client = await opened(act.url, doing, stream);
      client.query(act.statement).catch(() => undefined);
      await sleep(100);
      stream.pause();
    } catch {
      await sleep(PAUSE_MS);
    }
  }
}

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error ? String(error.code) : 'failed';
