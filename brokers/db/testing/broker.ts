import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLogger, newToken } from '@space/broker-kit';
import type { EmbeddedServer } from '../../../testing/postgres/server.ts';
import { readConfig } from '../config.ts';
import { type Service, startService } from '../service.ts';

export const DRIVER_PATH = join(import.meta.dirname, '../../../manifests/driver/postgres.json');

/** The mounted files of one broker, which several replicas may share and a test may rewrite. */
export interface Mounts {
  readonly directory: string;
  readonly provisioner: string;
  readonly environment: Record<string, string>;
  write(name: 'url' | 'token' | 'derivation' | 'names', text: string): void;
  remove(): void;
}

export function mountFiles(server: Pick<EmbeddedServer, 'brokerUrl' | 'port'>, space = 'test'): Mounts {
  const directory = mkdtempSync(join(tmpdir(), 'space-mounts-'));
  const provisioner = newToken('prv').reveal();
  const write = (name: string, text: string) =>
    writeFileSync(join(directory, name), `${text}\n`, { mode: 0o600 });
  write('url', server.brokerUrl);
  write('token', provisioner);
  write('derivation', randomBytes(32).toString('base64url'));
  write('names', randomBytes(32).toString('base64url'));
  const environment = {
    SPACE_NAME: space,
    LISTEN_HOST: '127.0.0.1',
    LISTEN_PORT: '0',
    METRICS_PORT: '0',
    ADMIN_DATABASE_URL_FILE: join(directory, 'url'),
    PROVISIONER_TOKEN_FILE: join(directory, 'token'),
    DERIVATION_KEY_FILE: join(directory, 'derivation'),
    NAME_KEY_FILE: join(directory, 'names'),
    ISSUED_HOST: '127.0.0.1',
    ISSUED_PORT: String(server.port),
    SPARE_DATABASES: '3',
    LOG_LEVEL: 'debug',
  };
  return { directory, provisioner, environment, write, remove: () => rmSync(directory, { recursive: true }) };
}

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into whatever came back
  readonly json: any;
}

/** A caller with one credential. */
export interface Client {
  readonly token: string | undefined;
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<Reply>;
  provision(capsule: string, principal: string): Promise<Reply>;
  finalize(capsule: string): Promise<Reply>;
  create(capsule: string, app: string): Promise<Reply>;
  drop(capsule: string, app: string): Promise<Reply>;
  dropAll(capsule: string): Promise<Reply>;
}

export function client(base: string, token: string | undefined): Client {
  const post: Client['post'] = async (path, body, headers = {}) => {
    const response = await fetch(`${base}${path}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        // A kept connection may be closed by the broker, as idle, just when the next request goes out on it.
        connection: 'close',
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...headers,
      },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, json: JSON.parse(text) };
  };
  return {
    token,
    post,
    provision: (capsule_id, principal_token) =>
      post('/v1/capsules/provision', { capsule_id, principal_token }),
    finalize: (capsule_id) => post('/v1/capsules/finalize', { capsule_id }),
    create: (capsule_id, app_id) => post('/v1/capsules/apps/create', { capsule_id, app_id }),
    drop: (capsule_id, app_id) => post('/v1/capsules/apps/drop', { capsule_id, app_id }),
    dropAll: (capsule_id) => post('/v1/capsules/drop', { capsule_id }),
  };
}

/** A broker in this process, with its log kept. */
export interface TestBroker extends Service {
  readonly url: string;
  readonly log: string[];
  readonly provisioner: Client;
  as(token: string | undefined): Client;
  /** Provisions a new Capsule and returns its principal's client. */
  capsule(id: string): Promise<Client>;
  /** Runs one of the upkeep's rounds now. */
  round(name: string): Promise<void>;
  /** The present values of a metric of the broker, by the labels of each series as they are written. */
  metric(name: string): Promise<ReadonlyMap<string, number>>;
}

async function samplesOf(url: string, name: string): Promise<Map<string, number>> {
  const text = await (await fetch(url)).text();
  const lines = text.matchAll(/^(\w+)(?:\{(.*)\})? (\S+)$/gm);
  return new Map(
    [...lines].flatMap(([, metric, labels = '', value]) =>
      metric === name ? [[labels, Number(value)]] : [],
    ),
  );
}

export async function startTestBroker(
  mounts: Mounts,
  options: {
    environment?: Record<string, string>;
    driverPath?: string;
    failpoint?: (name: string) => void;
  } = {},
): Promise<TestBroker> {
  const lines: string[] = [];
  const config = readConfig({ ...mounts.environment, ...options.environment });
  const destination = { write: (line: string) => void lines.push(line) };
  const log = createLogger({ service: 'db-broker', level: config.LOG_LEVEL, destination });
  const { failpoint, driverPath = DRIVER_PATH } = options;
  const broker = await startService({
    config,
    driverPath,
    log,
    ...(failpoint ? { failpoint } : {}),
  });
  const url = `http://127.0.0.1:${broker.port}`;
  const provisioner = client(url, mounts.provisioner);
  return {
    ...broker,
    url,
    log: lines,
    provisioner,
    as: (token) => client(url, token),
    capsule: async (id) => {
      const principal = newToken('dbp').reveal();
      const reply = await provisioner.provision(id, principal);
      if (reply.status !== 200) throw new Error(`provision ${id}: ${reply.text}`);
      return client(url, principal);
    },
    round: async (name) => {
      const round = broker.rounds.find((one) => one.name === name);
      if (round === undefined) throw new Error(`no round ${name}`);
      await round.run(new AbortController().signal);
    },
    metric: (name) => samplesOf(`http://127.0.0.1:${broker.metricsPort}/metrics`, name),
  };
}
