import { once } from 'node:events';
import { connect } from 'node:net';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { type EmbeddedServer, startEmbeddedServer } from '../../../testing/postgres/server.ts';
import { openTcpProxy, type TcpProxy } from '../../../testing/tcp-proxy.ts';
import { type Service, startService } from './service.ts';

const lunch = {
  description: 'Lunch',
  idempotency_key: 'lunch-1',
  lines: [
    { account: 'expenses:food:lunch', currency: 'EUR', amount: '12.50' },
    { account: 'assets:bank', currency: 'EUR', amount: '-12.50' },
  ],
};
const loan = {
  description: 'A loan in yen',
  date: '2026-01-31',
  lines: [
    { account: 'assets:bank', currency: 'JPY', amount: '9007199254740993' },
    { account: 'liabilities:loan', currency: 'JPY', amount: '-9007199254740993' },
  ],
};

let server: EmbeddedServer;
let superuser: pg.Client;
let databaseUrl: string;
let databases = 0;

beforeAll(async () => {
  server = await startEmbeddedServer({ durable: false });
  superuser = new pg.Client(server.superuserUrl);
  await superuser.connect();
});

afterAll(async () => {
  await superuser?.end();
  await server?.remove();
});

async function newDatabase(): Promise<void> {
  databases += 1;
  await superuser.query(`CREATE DATABASE ledger_${databases}`);
  const url = new URL(server.superuserUrl);
  url.pathname = `/ledger_${databases}`;
  databaseUrl = url.href;
}

async function using(work: (call: typeof fetchJson, service: Service) => Promise<void>): Promise<void> {
  const service = await start();
  try {
    await work(
      (path, body, init) => fetchJson(`http://127.0.0.1:${service.port}${path}`, body, init),
      service,
    );
  } finally {
    await service.stop();
  }
}

const start = (log: (event: object) => void = () => undefined, answerMs?: number) =>
  startService({
    ...(answerMs === undefined ? {} : { answerMs }),
    databaseUrl,
    port: 0,
    environment: { ASSISTANT_ID: 'ledger', CAPSULE_ID: 'household' },
    log,
    now: () => new Date('2026-11-21T23:59:59Z'),
  });

async function fetchJson(url: string, body?: unknown, init: RequestInit = {}) {
  const sent = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
  const response = await fetch(url, { headers: { 'content-type': 'application/json' }, ...sent, ...init });
  // biome-ignore lint/suspicious/noExplicitAny: tests read what they assert on
  return { status: response.status, body: (await response.json()) as any };
}

describe('the ledger', () => {
  beforeEach(newDatabase);

  it('describes what it is, where it runs and how to use it', () =>
    using(async (call) => {
      const { status, body } = await call('/');
      expect(status).toBe(200);
      expect(body).toMatchObject({
        name: 'Ledger',
        assistant: 'ledger',
        capsule: 'household',
        node: process.version,
      });
      expect(body.kernel).toMatch(/^Linux version/);
      expect((await call('/entries', body.requests['POST /entries'])).status).toBe(201);
      expect(await call('/healthz')).toEqual({ status: 200, body: { status: 'ok' } });
    }));

  it('keeps a connection longer than the API server, which would lose a request on one that closes', async () => {
    await using(async (_, { port }) => {
      const { headers } = await fetch(`http://127.0.0.1:${port}/balances`);
      const [, seconds] = /timeout=(\d+)/.exec(headers.get('keep-alive') ?? '') ?? [];
      expect(Number(seconds)).toBeGreaterThan(90);
    });
  });

  it('posts an entry and shows balances by account, with what is below it', () =>
    using(async (call) => {
      const posted = await call('/entries', lunch);
      expect(posted).toMatchObject({ status: 201, body: { id: '1', date: '2026-11-21', ...lunch } });
      await call('/entries', loan);
      expect((await call('/entries/1')).body).toEqual(posted.body);
      expect((await call('/balances')).body.balances).toEqual([
        { account: 'assets:bank', currency: 'EUR', balance: '-12.50' },
        { account: 'assets:bank', currency: 'JPY', balance: '9007199254740993' },
        { account: 'expenses:food:lunch', currency: 'EUR', balance: '12.50' },
        { account: 'liabilities:loan', currency: 'JPY', balance: '-9007199254740993' },
      ]);
      const food = [{ account: 'expenses:food:lunch', currency: 'EUR', balance: '12.50' }];
      for (const account of ['expenses', 'expenses:food', 'expenses:food:lunch'])
        expect((await call(`/balances?account=${account}`)).body.balances).toEqual(food);
      expect((await call('/balances?account=expenses:foo')).body.balances).toEqual([]);
    }));

  it('posts an idempotency key once, also when many ask at the same time', () =>
    using(async (call) => {
      const replies = await Promise.all(Array.from({ length: 10 }, () => call('/entries', lunch)));
      expect(replies.map(({ status }) => status).sort()).toEqual([...Array<number>(9).fill(200), 201]);
      expect(new Set(replies.map(({ body }) => body.id)).size).toBe(1);
      expect((await call('/balances?account=assets')).body.balances[0].balance).toBe('-12.50');
      const other = await call('/entries', { ...lunch, description: 'Dinner' });
      expect(other).toMatchObject({ status: 409, body: { error: { code: 'conflict' } } });
    }));

  it('pages through the journal, newest first, each entry once', () =>
    using(async (call) => {
      for (let i = 1; i <= 5; i += 1) await call('/entries', { ...lunch, idempotency_key: `n-${i}` });
      await call('/entries', loan);
      const seen: string[] = [];
      let next: string | null = '/entries?limit=2&account=expenses:food';
      while (next !== null) {
        const { body }: { body: { entries: { id: string }[]; next: string | null } } = await call(next);
        seen.push(...body.entries.map(({ id }) => id));
        next = body.next;
      }
      expect(seen).toEqual(['5', '4', '3', '2', '1']);
    }));

  it('has a trial balance whose debits and credits agree', () =>
    using(async (call) => {
      await call('/entries', lunch);
      await call('/entries', { ...lunch, idempotency_key: 'lunch-2' });
      const { body } = await call('/trial-balance');
      expect(body.accounts).toEqual([
        { account: 'assets:bank', currency: 'EUR', debits: '0.00', credits: '25.00' },
        { account: 'expenses:food:lunch', currency: 'EUR', debits: '25.00', credits: '0.00' },
      ]);
      expect(body.sums).toEqual([{ currency: 'EUR', debits: '25.00', credits: '25.00', balanced: true }]);
    }));

  it('enforces its rules in the database itself: no unbalanced entry, no change', () =>
    using(async (call) => {
      await call('/entries', lunch);
      const direct = new pg.Client(databaseUrl);
      await direct.connect();
      const unbalanced = 'INSERT INTO line SELECT 1, 3, 1, currency, 1 FROM line LIMIT 1';
      await expect(direct.query(unbalanced)).rejects.toThrow('does not sum to zero');
      await expect(direct.query('UPDATE line SET minor = minor')).rejects.toThrow('only added to');
      await expect(direct.query('DELETE FROM entry')).rejects.toThrow('only added to');
      await expect(direct.query('TRUNCATE entry, line')).rejects.toThrow('only added to');
      await direct.end();
    }));

  it('migrates once when two replicas start together, and keeps existing data', async () => {
    const [one, two] = await Promise.all([start(), start()]);
    const at = (service: Service, path: string) => `http://127.0.0.1:${service.port}${path}`;
    await fetchJson(at(one, '/entries'), lunch);
    expect((await fetchJson(at(two, '/entries/1'))).body.description).toBe('Lunch');
    await Promise.all([one.stop(), two.stop()]);
    await using(async (call) => expect((await call('/entries/1')).status).toBe(200));
  });

  it('waits for a database that does not exist yet', async () => {
    await superuser.end();
    await server.stop();
    let waits = 0;
    const waiting = Promise.withResolvers<void>();
    const starting = start(() => {
      waits += 1;
      if (waits === 2) waiting.resolve();
    });
    await waiting.promise;
    await server.start();
    superuser = new pg.Client(server.superuserUrl);
    await superuser.connect();
    await (await starting).stop();
  });

  it('gives up at once when its credentials are wrong', async () => {
    const wrong = new URL(databaseUrl);
    wrong.password = 'wrong';
    databaseUrl = wrong.href;
    await expect(start()).rejects.toThrow('password authentication failed');
  });

  it('answers the request in progress when it is told to stop', async () => {
    const service = await start();
    const socket = connect(service.port, '127.0.0.1');
    const body = JSON.stringify(lunch);
    socket.write(
      `POST /entries HTTP/1.1\r\nHost: l\r\nContent-Length: ${body.length}\r\nExpect: 100-continue\r\n\r\n`,
    );
    await once(socket, 'data'); // it has taken the request and waits for the body
    const stopped = service.stop();
    socket.write(body);
    let reply = '';
    for await (const chunk of socket.setEncoding('utf8')) reply += chunk;
    expect(reply).toMatch(/^HTTP\/1\.1 201 /);
    await stopped;
  });
});

describe('while the database fails over', () => {
  let line: TcpProxy;

  beforeEach(async () => {
    await newDatabase();
    line = await openTcpProxy(server);
    const url = new URL(databaseUrl);
    url.port = String(line.port);
    databaseUrl = url.href;
  });
  afterEach(() => line.close());

  // An error event that nobody hears would end the process; vitest reports it.
  it.each(['before', 'after'] as const)(
    'refuses the entry whose connection is lost %s its COMMIT, and posts it once when it is sent again',
    (moment) =>
      using(async (call) => {
        const cut = line.cutAt('COMMIT', moment);
        expect(await call('/entries', lunch)).toMatchObject({
          status: 503,
          body: { error: { code: 'unavailable' } },
        });
        expect(cut()).toBe(true);
        expect((await call('/entries', lunch)).status).toBe(moment === 'before' ? 201 : 200);
        expect((await call('/entries')).body.entries).toHaveLength(1);
      }),
  );

  it('gives up a connection to a server that is lost, and continues on another', async () => {
    // Seconds in which a busy machine can answer a statement.
    const service = await start(undefined, 3_000);
    try {
      const call = (path: string, body?: object) =>
        fetchJson(`http://127.0.0.1:${service.port}${path}`, body);
      expect((await call('/entries', loan)).status).toBe(201);
      line.silence();
      expect((await call('/entries', lunch)).status).toBe(503);
      await eventually(async () => (await call('/entries', lunch)).status < 300, { what: 'a posted entry' });
    } finally {
      await service.stop();
    }
  });
});

describe('an invalid request', () => {
  let service: Service;

  beforeAll(async () => {
    await newDatabase();
    service = await start();
  });

  afterAll(() => service?.stop());

  it.each([
    ['/nowhere', undefined, {}, 404, 'not_found'],
    ['/entries/1', undefined, {}, 404, 'not_found'],
    ["/entries/1'--", undefined, {}, 404, 'not_found'],
    ['/balances', {}, {}, 405, 'method_not_allowed'],
    ['/entries', undefined, { method: 'POST', body: '{' }, 400, 'invalid_json'],
    [
      '/entries',
      undefined,
      { method: 'POST', body: new Uint8Array([0x22, 0xff, 0x22]) },
      400,
      'invalid_json',
    ],
    ['/entries', lunch, { headers: { 'content-type': 'text/plain' } }, 415, 'unsupported_media_type'],
    ['/entries', { description: 'x'.repeat(70_000) }, {}, 413, 'too_large'],
    ['/entries', { ...lunch, lines: lunch.lines.slice(1) }, {}, 400, 'invalid_request'],
    ['/entries?limit=0', undefined, {}, 400, 'invalid_request'],
    ['/entries?before=x', undefined, {}, 400, 'invalid_request'],
    ['/balances?account=%25', undefined, {}, 400, 'invalid_request'],
    ['/balances?accounts=assets', undefined, {}, 400, 'invalid_request'],
    ['/balances?account=assets&account=assets', undefined, {}, 400, 'invalid_request'],
  ])('refuses %s with a reason', async (path, body, init, status, code) =>
    using(async (call) => {
      const reply = await call(path, body, init);
      expect(reply).toMatchObject({ status, body: { error: { code, message: expect.any(String) } } });
    }),
  );
});
