import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLogger, newToken } from '@space/broker-kit';
import type { S3Server } from '../../../testing/s3.ts';
import { readConfig } from '../config.ts';
import { type Service, startService } from '../service.ts';

export const DRIVER_DIRECTORY = join(import.meta.dirname, '../../../manifests/driver');
export const BUCKET = 'space';

/** The mounted files of one broker, which several replicas may share and a test may rewrite. */
export interface Mounts {
  readonly directory: string;
  readonly provisioner: string;
  readonly environment: Record<string, string>;
  /** Writes or replaces a mounted file, and returns its path. */
  write(name: string, text: string): string;
  remove(): void;
}

/** Where an S3 server is, and its key. */
export type S3Place = Pick<S3Server, 'endpoint' | 'region' | 'accessKeyId' | 'secretAccessKey'>;

export function mountFiles(registryUrl: string, s3: S3Place, space = 'test'): Mounts {
  const directory = mkdtempSync(join(tmpdir(), 'space-mounts-'));
  const provisioner = newToken('prv').reveal();
  const write = (name: string, text: string) => {
    const path = join(directory, name);
    writeFileSync(path, `${text}\n`, { mode: 0o600 });
    return path;
  };
  const environment = {
    SPACE_NAME: space,
    LISTEN_HOST: '127.0.0.1',
    LISTEN_PORT: '0',
    DATA_PORT: '0',
    METRICS_PORT: '0',
    REGISTRY_DATABASE_URL_FILE: write('url', registryUrl),
    PROVISIONER_TOKEN_FILE: write('token', provisioner),
    NAME_KEY_FILE: write('names', randomBytes(32).toString('base64url')),
    CUSTODY_KEYRING_FILE: write('keyring', newKeyring()),
    S3_ENDPOINT: s3.endpoint,
    S3_REGION: s3.region,
    S3_BUCKET: BUCKET,
    S3_ACCESS_KEY_FILE: write('access-key', s3.accessKeyId),
    S3_SECRET_KEY_FILE: write('secret-key', s3.secretAccessKey),
    // A request is not refused because a busy machine has not come to those before it.
    OBJECT_QUEUE_SECONDS: '60',
    LOG_LEVEL: 'debug',
  };
  return { directory, provisioner, environment, write, remove: () => rmSync(directory, { recursive: true }) };
}

/** A keyring of one random key. */
function newKeyring(): string {
  return JSON.stringify({ primary: 'k1', keys: { k1: randomBytes(32).toString('base64url') } });
}

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into whatever came back
  readonly json: any;
}

/** A caller of the control listener with one credential. */
export interface Client {
  readonly token: string | undefined;
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<Reply>;
  provision(capsule: string, principal: string, more?: { quota_bytes: number }): Promise<Reply>;
  finalize(capsule: string): Promise<Reply>;
  create(capsule: string, app: string, principal: string): Promise<Reply>;
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
    provision: (capsule_id, principal_token, more) =>
      post('/v1/capsules/provision', { capsule_id, principal_token, ...more }),
    finalize: (capsule_id) => post('/v1/capsules/finalize', { capsule_id }),
    create: (capsule_id, app_id, principal_token) =>
      post('/v1/capsules/apps/create', { capsule_id, app_id, principal_token }),
    drop: (capsule_id, app_id) => post('/v1/capsules/apps/drop', { capsule_id, app_id }),
    dropAll: (capsule_id) => post('/v1/capsules/drop', { capsule_id }),
  };
}

/** A broker in this process, with its log kept. */
export interface TestBroker extends Service {
  readonly url: string;
  readonly dataUrl: string;
  readonly log: string[];
  readonly provisioner: Client;
  as(token: string | undefined): Client;
  /** Provisions a new Capsule and returns its principal's client. */
  capsule(id: string, more?: { quota_bytes: number }): Promise<Client>;
  /** Registers a workload of the Capsule and returns its token for the data listener. */
  workload(capsule: Client, capsuleId: string, app: string): Promise<string>;
  /** Runs one of the upkeep's rounds now. */
  round(name: string): Promise<void>;
}

export interface TestBrokerOptions {
  readonly environment?: Record<string, string>;
  readonly failpoint?: (name: string) => void;
  readonly pace?: Parameters<typeof startService>[0]['pace'];
}

export async function startTestBroker(mounts: Mounts, options: TestBrokerOptions = {}): Promise<TestBroker> {
  const lines: string[] = [];
  const config = readConfig({ ...mounts.environment, ...options.environment });
  const destination = { write: (line: string) => void lines.push(line) };
  const log = createLogger({ service: 'objectstore-broker', level: config.LOG_LEVEL, destination });
  const { failpoint, pace } = options;
  const broker = await startService({
    config,
    driverDirectory: DRIVER_DIRECTORY,
    log,
    ...(failpoint ? { failpoint } : {}),
    ...(pace ? { pace } : {}),
  });
  const url = `http://127.0.0.1:${broker.port}`;
  const provisioner = client(url, mounts.provisioner);
  return {
    ...broker,
    url,
    dataUrl: `http://127.0.0.1:${broker.dataPort}`,
    log: lines,
    provisioner,
    as: (token) => client(url, token),
    capsule: async (id, more) => {
      const principal = newToken('osp').reveal();
      const reply = await provisioner.provision(id, principal, more);
      if (reply.status !== 200) throw new Error(`provision ${id}: ${reply.text}`);
      return client(url, principal);
    },
    workload: async (capsule, capsuleId, app) => {
      const principal = newToken('osw').reveal();
      const reply = await capsule.create(capsuleId, app, principal);
      if (reply.status !== 200) throw new Error(`create ${app}: ${reply.text}`);
      return principal;
    },
    round: async (name) => {
      const round = broker.rounds.find((one) => one.name === name);
      if (round === undefined) throw new Error(`no round ${name}`);
      await round.run(new AbortController().signal);
    },
  };
}
