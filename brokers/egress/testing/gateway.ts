import { createHash } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import {
  type AddressGuard,
  type Answer,
  addressGuard,
  createLogger,
  createMetrics,
  newToken,
  portOf,
  type Resolve,
  Secret,
  withFixed,
} from '@space/broker-kit';
import type { PolicyPut } from '@space/contracts/egress';
import type { Definition } from '@space/manifests';
import type { Registry } from 'prom-client';
import { type Custody, createCustody, passingKeyring } from '../custody.ts';
import type { DataLimits } from '../data/limits.ts';
import { type Gateway, startGateway } from '../gateway.ts';
import { ownerOf } from '../policies/tenant.ts';

export const VALUE = 'sk_live_4eC39HqLyjWDarjtT1zdp7dc';

/** What a test is not about does not end while a busy machine stands still. */
const NEVER_MS = 10 * 60_000;

/** One Assistant's gateway on loopback, its log in memory. */
export interface TestGateway {
  readonly gateway: Gateway;
  readonly custody: Custody;
  readonly port: number;
  readonly principal: string;
  readonly log: string[];
  readonly registry: Registry;
  /** Names that were resolved, and how often a value was opened, since the gateway began. */
  readonly used: { readonly names: string[]; opened: number };
  /** Puts the Assistant's policy; the values of inputs are sealed under their definitions. */
  put(
    policy: Partial<PolicyPut>,
    inputs?: Readonly<Record<string, Definition>>,
  ): ReturnType<Gateway['policies']['put']>;
  sealed(key: string, definition: Definition, value?: string): Promise<string>;
  /** Sends bytes as they are and returns everything until the connection ends. */
  raw(bytes: string | Buffer): Promise<string>;
  /** A CONNECT that was answered, and the head of its answer. */
  tunnel(
    target: string,
    headers?: Readonly<Record<string, string>>,
  ): Promise<{ head: string; socket: Socket }>;
  close(): Promise<void>;
}

export async function makeGateway(options: {
  readonly fixed?: ReadonlyMap<string, Answer>;
  /** Resolves names that are not fixed; without it they have no address. */
  readonly resolve?: Resolve;
  readonly guard?: AddressGuard;
  readonly authorities?: string;
  readonly limits?: Partial<DataLimits>;
  readonly now?: () => number;
  /** `false`: as it is at its start, when it may not know every Assistant yet. */
  readonly inStep?: boolean;
}): Promise<TestGateway> {
  const log: string[] = [];
  const ring = passingKeyring();
  const used = { names: [] as string[], opened: 0 };
  const sealing = createCustody('test', () => ring);
  const custody: Custody = {
    ...sealing,
    open(owner, envelope) {
      used.opened += 1;
      return sealing.open(owner, envelope);
    },
  };
  const resolve = withFixed(options.fixed ?? new Map(), options.resolve ?? (async () => []));
  const metrics = createMetrics();
  const gateway = await startGateway({
    host: '127.0.0.1',
    port: 0,
    custody,
    resolve(host) {
      used.names.push(host);
      return resolve(host);
    },
    guard: options.guard ?? addressGuard(),
    names: ['assistant-egress'],
    authorities: options.authorities,
    limits: {
      ...{
        unknownWaitMs: 50,
        ownWaitMs: options.limits?.unknownWaitMs ?? 50,
        headMs: NEVER_MS,
        helloMs: NEVER_MS,
        connectMs: NEVER_MS,
      },
      ...options.limits,
    },
    metrics,
    log: createLogger({
      service: 'egress',
      level: 'debug',
      destination: { write: (line) => void log.push(line) },
    }),
    ...(options.now ? { now: options.now } : {}),
  });
  if (options.inStep !== false) gateway.policies.markInStep();
  const port = portOf(gateway.listener.server);
  const principal = newToken('egr').reveal();
  const assistant = { capsule_id: 'home', app_id: 'ledger', assistant_uid: 'uid-1' };
  const sealed = (key: string, definition: Definition, value = VALUE, whose = assistant) =>
    custody.seal(ownerOf(whose, key, definition), new Secret(value));
  let revision = 0;
  return {
    gateway,
    custody,
    port,
    principal,
    log,
    registry: metrics.registry,
    used,
    sealed,
    async put(policy, inputs = {}) {
      revision += 1;
      const whose = { ...assistant, ...policy };
      const entries = Object.entries(inputs).map(async ([key, definition]) => {
        const envelope = await sealed(key, definition, VALUE, whose);
        return [key, { definition, envelope }] as const;
      });
      return gateway.policies.put({
        ...assistant,
        generation: revision,
        revision: digest(String(revision)),
        principals: [digest(principal)],
        addresses: ['127.0.0.1'],
        allowed_hosts: [],
        stored_inputs: Object.fromEntries(await Promise.all(entries)) as PolicyPut['stored_inputs'],
        ...policy,
      });
    },
    raw(bytes) {
      return new Promise((resolve, reject) => {
        let text = '';
        const socket = connect(port, '127.0.0.1', () => socket.write(bytes));
        socket.setEncoding('latin1').on('data', (chunk) => {
          text += chunk;
        });
        socket.on('error', reject).on('close', () => resolve(text));
      });
    },
    tunnel(target, headers = { 'proxy-authorization': basic(principal) }) {
      return new Promise((resolve, reject) => {
        const socket = connect(port, '127.0.0.1');
        let head = '';
        const fields = Object.entries({ host: target, ...headers }).map(
          ([name, value]) => `${name}: ${value}\r\n`,
        );
        socket.write(`CONNECT ${target} HTTP/1.1\r\n${fields.join('')}\r\n`);
        const onData = (chunk: Buffer) => {
          head += chunk.toString('latin1');
          if (!head.includes('\r\n\r\n')) return;
          socket
            .off('data', onData)
            .off('error', reject)
            .on('error', () => undefined)
            .pause();
          resolve({ head, socket });
        };
        socket.on('data', onData).on('error', reject);
      });
    },
    async close() {
      gateway.policies.endAll();
      gateway.listener.server.closeAllConnections();
      await gateway.listener.close();
      await gateway.upstreams.close();
    },
  };
}

export const basic = (principal: string) => `Basic ${Buffer.from(`egr:${principal}`).toString('base64')}`;
export const digest = (text: string) => createHash('sha256').update(text).digest('hex');
