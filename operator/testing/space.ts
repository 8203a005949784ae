import { readFileSync } from 'node:fs';
import { Secret } from '@space/contracts/secret';
import type { AssistantSpec, CapsuleSpec } from '@space/manifests';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { DRIVER_PATH } from '../../brokers/db/testing/broker.ts';
import type { Fixture } from '../../brokers/db/testing/postgres.ts';
import type { ApiServer } from '../../testing/api-server.ts';
import { eventually } from '../../testing/eventually.ts';
import { databaseBroker } from '../brokers/database.ts';
import type { ObjectStoreBroker } from '../brokers/objects.ts';
import type { Finding } from '../conditions.ts';
import { type CallReplica, ReplicaError } from '../egress/replica.ts';
import type { GrantKey } from '../grants/sign.ts';
import * as kinds from '../kinds.ts';
import { capsuleNamespace, LABEL, type SpaceNames } from '../names.ts';
import { startOperator } from '../operator.ts';
import type { ApiClient } from '../runtime/client.ts';
import { pathOf, type Resource } from '../runtime/kube-object.ts';
import type { Manager } from '../runtime/manager.ts';
import { runtimeMetrics } from '../runtime/metrics.ts';
import { type Fate, startControllers } from './controllers.ts';
import { killableRun, type OperatorRun } from './crash.ts';
import { EVENT, type Kubectl, kubectlIn } from './kubectl.ts';
import { nothingLeaked } from './leaks.ts';
import { manifest } from './manifest.ts';
import { releasePolicies } from './policies.ts';

export const IMAGE = 'registry.test/assistant:1';
export const ATTESTER_IMAGE = `registry.test/attester@sha256:${'a'.repeat(64)}`;

/** A Space of its own on a shared API server and broker, with an operator that can be ended and started. */
export interface TestSpace extends Kubectl {
  readonly names: SpaceNames;
  /** What the running operator does, or the last one did. */
  readonly run: OperatorRun;
  readonly logs: readonly string[];
  readonly fates: Map<string, Fate>;
  /** A Capsule's name that no other Space of this file has: the broker they share would take them for one. */
  readonly home: string;
  start(options?: StartOptions): Promise<void>;
  stop(): Promise<void>;
  /** Starts another operator beside it, which leads when it may. */
  standby(options?: StartOptions): Promise<Standby>;
  /** Ends all programs and deletes the cluster-wide objects. */
  close(): Promise<void>;
  capsule(name: string, spec?: CapsuleSpec): Promise<void>;
  assistant(name: string, spec: Partial<AssistantSpec> & { readonly capsule: string }): Promise<void>;
  namespaceOf(capsule: string): string;
  /** The Capsule `home` with one Assistant, both ready and at rest; answers their namespace. */
  settled(id?: string): Promise<string>;
  /** Nothing is left to be written about a settled Assistant: its usage, and its Capsule's count, are the last that are. */
  rests(id?: string): Promise<void>;
  /** Starts another operator in the place of this one, which has looked at `home` and the Assistant once by the end. */
  restartedAndLooked(id?: string): Promise<void>;
  /** The DATABASE_URL of an Assistant in `home`. */
  urlOf(id: string): Promise<string>;
}

interface StartOptions {
  readonly dieAfter?: number;
  readonly brokerUrl?: string;
  /** Replaces the plain client of the API server. */
  readonly client?: ApiClient;
  /** If undefined, the Space has no object store. */
  readonly objectStore?: ObjectStoreBroker;
  readonly grantKey?: () => Promise<GrantKey>;
  readonly callReplica?: CallReplica;
  readonly onLoss?: SpaceNames['onLoss'];
  readonly graceMs?: number;
  readonly wallClock?: () => number;
  readonly reconcileMs?: number;
  readonly handlerReport?: SpaceNames['handlerReport'];
  readonly pullSecrets?: readonly string[];
  readonly consoleRole?: string;
  readonly onGate?: (finding: Finding) => void;
  /** What Assistants get as the Space's authority. */
  readonly ca?: string;
  /** The authority of a PostgreSQL that the Space does not run. */
  readonly databaseCa?: string;
}

interface Standby {
  readonly manager: Manager;
  readonly run: OperatorRun;
}

const NO_REPLICA: CallReplica = () => Promise.reject(new ReplicaError('nothing'));

let spaces = 0;

export async function makeSpace(server: ApiServer, database: Fixture): Promise<TestSpace> {
  spaces += 1;
  const space = `t${process.pid}x${spaces}`;
  const names: SpaceNames = {
    space,
    namespace: space,
    systemNamespace: `${space}-system`,
    servicesNamespace: `${space}-services`,
    runtimeClass: `gvisor-${space}`,
    handler: 'runsc',
    attesterImage: ATTESTER_IMAGE,
    handlerReport: 'node',
    onLoss: 'keep',
    graceMs: 0,
  };
  const { client } = server;
  const create = (resource: Resource, body: unknown, namespace?: string) =>
    client.call({ method: 'POST', path: pathOf(resource, namespace), body });
  for (const name of [names.namespace, names.systemNamespace, names.servicesNamespace])
    await create(kinds.NAMESPACE, { metadata: { name } });
  for (const [name, port] of [
    ['postgres', 5432],
    ['canary', 7001],
    ['objectstore', 8081],
  ] as const) {
    const labels = { [LABEL.space]: space, [LABEL.component]: name };
    const service = { metadata: { name, labels }, spec: { ports: [{ port }] } };
    await create(kinds.SERVICE, service, names.servicesNamespace);
  }
  await create(kinds.RUNTIME_CLASS, { metadata: { name: names.runtimeClass }, handler: names.handler });

  const withdrawPolicies = await releasePolicies(client, names);

  const home = `home-${spaces}`;
  const fates = new Map<string, Fate>();
  const controllers = startControllers(client, space, (image) => fates.get(image) ?? 'ready');
  const logs: string[] = [];
  const log = pino({ level: 'debug' }, { write: (line: string) => void logs.push(line) });
  const driver = readFileSync(DRIVER_PATH);
  let manager: Manager | undefined;
  let runs = 0;
  const alive = new Map<string, OperatorRun>();
  const others: Manager[] = [];
  let run: OperatorRun = { acts: [], dead: false, arm: () => {} };
  let closing = false;
  let reviving: Promise<void> = Promise.resolve();

  function operate({
    dieAfter,
    brokerUrl = database.broker.url,
    callReplica = NO_REPLICA,
    onLoss = names.onLoss,
    graceMs = names.graceMs,
    wallClock = Date.now,
    reconcileMs,
    handlerReport = names.handlerReport,
    pullSecrets = [],
    consoleRole,
    onGate = () => {},
    ca,
    databaseCa,
    objectStore,
    grantKey,
    client: way = client,
    onLost,
  }: StartOptions & { readonly onLost?: (run: OperatorRun) => void } = {}): Standby {
    const provisionerToken = async () => new Secret(database.mounts.provisioner);
    const dbBroker = databaseBroker({ url: brokerUrl, driver, provisionerToken });
    const killable = killableRun(way, dbBroker, dieAfter, objectStore);
    runs += 1;
    const begun = startOperator({
      client: killable.client,
      database: killable.database,
      objectStore: killable.objectStore,
      ...(grantKey ? { grantKey } : {}),
      callReplica,
      spaceCa: ca === undefined ? undefined : async () => ca,
      databaseCa: databaseCa === undefined ? undefined : async () => databaseCa,
      names: { ...names, onLoss, graceMs, handlerReport, pullSecrets, consoleRole },
      log,
      metrics: runtimeMetrics(new Registry()),
      onGate,
      wallClock,
      reconcileMs,
      onLost: () => onLost?.(killable.run),
      holder: `operator_${runs}`,
      // A killed operator cannot release the Lease; one on a busy machine, or whose API server is away, keeps it for long.
      lease: {
        ...{ durationMs: 240_000, giveUpMs: 200_000, renewMs: 100, lookMs: 50 },
        isGone: async (holder) => alive.get(holder)?.dead !== false,
      },
    });
    alive.set(`operator_${runs}`, killable.run);
    return { manager: begun, run: killable.run };
  }

  const kubectl = kubectlIn(client, space, names.systemNamespace);
  const counted = async () =>
    (await kubectl.get<kinds.Capsule>(kinds.CAPSULE, home))?.status?.assistants?.ready === 1;
  const test: TestSpace = {
    ...kubectl,
    names,
    get run() {
      return run;
    },
    logs,
    fates,
    home,
    async start(options) {
      // A machine that was too busy to renew the Lease: as a pod's, its process ends and is started again.
      const onLost = (of: OperatorRun) => {
        if (of.dead || of !== run || closing) return;
        reviving = test.stop().then(() => (closing ? undefined : test.start(options)));
      };
      ({ manager, run } = operate({ ...options, onLost }));
      await manager.started;
    },
    async standby(options) {
      const other = operate(options);
      others.push(other.manager);
      await eventually(() => other.manager.warm, { what: 'the other operator is warm' });
      return other;
    },
    async stop() {
      await manager?.stop();
      manager = undefined;
      // What has ended holds nothing, also if the API server did not hear that it released the Lease.
      for (const [holder, one] of alive) if (one === run) alive.delete(holder);
    },
    async close() {
      closing = true;
      await reviving;
      await test.stop();
      await Promise.all(others.map((other) => other.stop()));
      await controllers.stop();
      const left = await test.get(kinds.RUNTIME_CLASS, names.runtimeClass);
      if (left) await test.delete(kinds.RUNTIME_CLASS, names.runtimeClass);
      await withdrawPolicies();
      const told = { capsules: kinds.CAPSULE, assistants: kinds.ASSISTANT, Events: EVENT };
      const lists = Object.entries(told).map(async ([what, kind]) => [what, await test.list(kind)] as const);
      const { provisioner } = database.mounts;
      nothingLeaked({ logs, ...Object.fromEntries(await Promise.all(lists)) }, [provisioner]);
    },
    async capsule(name, spec = {}) {
      await create(kinds.CAPSULE, custom('Capsule', name, spec), space);
    },
    async assistant(name, spec) {
      const full = { image: IMAGE, manifest: manifest(name), ...spec };
      await create(kinds.ASSISTANT, custom('Assistant', name, full), space);
    },
    namespaceOf: (capsule) => capsuleNamespace(space, capsule),
    async settled(id = 'ledger') {
      await test.capsule(home);
      await test.assistant(id, { capsule: home });
      await test.becomes(kinds.ASSISTANT, id, 'Ready', 'True Ready');
      await eventually(counted, { what: 'the Capsule has counted its Assistant' });
      return test.namespaceOf(home);
    },
    async rests(id = 'ledger') {
      const measured = async () =>
        (await test.get<kinds.Assistant>(kinds.ASSISTANT, id))?.status?.usage?.database !== undefined;
      await eventually(measured, { what: 'the size of its database is known' });
      await eventually(counted, { what: 'the Capsule has counted its Assistants' });
    },
    async restartedAndLooked(id = 'ledger') {
      await test.stop();
      const before = logs.length;
      await test.start();
      const looked = (controller: string, name: string) =>
        logs
          .slice(before)
          .some((line) =>
            ['"reconciled"', `"controller":"${controller}"`, `/${name}"`].every((part) =>
              line.includes(part),
            ),
          );
      await eventually(() => looked('capsule', home) && looked('assistant', id), {
        what: 'everything was looked at again',
      });
    },
    async urlOf(id) {
      const secret = await test.get<kinds.SecretObject>(
        kinds.SECRET,
        `${id}-database`,
        test.namespaceOf(home),
      );
      return Buffer.from(secret?.data?.['DATABASE_URL'] ?? '', 'base64').toString();
    },
  };

  return test;
}

function custom(kind: string, name: string, spec: unknown) {
  return { apiVersion: 'platform.space/v1', kind, metadata: { name }, spec };
}
