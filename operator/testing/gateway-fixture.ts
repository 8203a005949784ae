import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { PolicyTaken } from '@space/contracts/egress';
import { Secret } from '@space/contracts/secret';
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import { readConfig } from '../../brokers/egress/config.ts';
import { type Service, startService } from '../../brokers/egress/service.ts';
import { createLogger, newToken } from '../../brokers/kit/index.ts';
import { eventually } from '../../testing/eventually.ts';
import { type CallReplica, replicaCaller } from '../egress/replica.ts';
import * as kinds from '../kinds.ts';
import { LABEL, STORED_INPUT_TYPE } from '../names.ts';
import { pathOf } from '../runtime/kube-object.ts';
import { type Caller, codeOfConnect, codeOfUse } from './gateway-caller.ts';
import { manifest } from './manifest.ts';
import type { TestSpace } from './space.ts';
import { openTestEnvironment, type TestEnvironment } from './test-environment.ts';

const { ASSISTANT, CAPSULE, POD, SECRET, SERVICE } = kinds;
const TOKEN = newToken('prv').reveal();

export const READY = 'True Ready';
/** What a person enters for `INPUT`. */
export const VALUE = 'sk_live_canary_9f3b51';
export const INPUT = {
  kind: 'password',
  label: 'Bank key',
  description: 'Reads rates.',
  help_url: 'https://help.bank.org/keys',
  host: 'api.bank.org',
  routes: [{ method: 'GET', path: '/v1/rates' }],
  header: 'X-Api-Key',
};
/** `spec.storedInputs` of an Assistant that has `INPUT` as its input `bank`. */
export const BOUND = { bank: { secretKeyRef: { name: 'bank-key', key: 'value' } } };

export const outside = (network: object, inputs: object = {}) =>
  manifest('ledger', { network, stored_inputs: inputs });

/** For each test of a file: a Space with a Capsule that is Ready, and no replica of the gateway yet. */
export function useGateways(): GatewayFixture {
  const fixture = new GatewayFixture();
  beforeAll(fixture.open);
  beforeEach(fixture.begin);
  afterEach(fixture.end);
  afterAll(fixture.close);
  return fixture;
}

/**
 * A Space with real replicas of the gateway. All of them listen on loopback; the operator finds each by its pod and
 * distinguishes them by the addresses of the pods.
 */
export class GatewayFixture {
  #environment: TestEnvironment | undefined;
  #space: TestSpace | undefined;
  #directory = '';
  #isResealed = false;
  /** The Capsule. */
  home = '';
  replicas: Service[] = [];
  /** What replicas were asked, and what of it the operator had an answer to. */
  calls: string[] = [];
  answered: string[] = [];
  /** Whether the operator reaches no replica. */
  cut = false;
  /** The address of a replica that it does not reach. */
  away: string | undefined;
  /** Further values that replicas report as returned by their hosts. */
  reflected: readonly string[] = [];
  /** Whether hosts return the value of `bank` while a replica has an envelope of it that it has sealed again. */
  returnsResealed = false;

  get environment(): TestEnvironment {
    return opened(this.#environment);
  }

  get space(): TestSpace {
    return opened(this.#space);
  }

  readonly open = async (): Promise<void> => {
    this.#environment = await openTestEnvironment();
    this.#directory = mkdtempSync(join(tmpdir(), 'space-operator-egress-'));
    writeFileSync(join(this.#directory, 'token'), TOKEN);
  };

  readonly close = async (): Promise<void> => {
    await this.#environment?.close();
    rmSync(this.#directory, { recursive: true, force: true });
  };

  readonly begin = async (): Promise<void> => {
    this.keep('k1');
    Object.assign(this, {
      replicas: [],
      calls: [],
      answered: [],
      cut: false,
      away: undefined,
      reflected: [],
      returnsResealed: false,
    });
    this.#space = await this.environment.space();
    this.home = this.space.home;
    const service = { metadata: this.#named('platform-assistant-egress'), spec: { ports: [{ port: 80 }] } };
    await this.make(SERVICE, service);
    await this.space.start({ callReplica: this.callReplica });
    await this.space.capsule(this.home);
    await this.space.becomes(CAPSULE, this.home, 'Ready', READY);
  };

  readonly end = async (): Promise<void> => {
    await this.space.close();
    for (const replica of this.replicas) await replica.stop();
  };

  readonly callReplica: CallReplica = async (replica, operation, ...rest) => {
    const at = Number(replica.address.split('.').at(-1)) - 11;
    this.calls.push(operation);
    const port = this.cut || replica.address === this.away ? 1 : (this.replicas[at]?.controlPort ?? 1);
    const call = replicaCaller({ port, token: async () => new Secret(TOKEN) });
    const answer = await call({ ...replica, address: '127.0.0.1' }, operation, ...rest);
    this.answered.push(operation);
    if (operation === 'policy.put') this.#isResealed = 'bank' in (answer as PolicyTaken).resealed;
    const suspended = this.returnsResealed && this.#isResealed ? ['bank'] : this.reflected;
    if (operation === 'input.suspended' && suspended.length > 0)
      Object.assign(answer as object, { suspended });
    return answer;
  };

  readonly make = (
    resource: Parameters<typeof pathOf>[0],
    body: unknown,
    namespace = this.space.names.servicesNamespace,
  ) => this.environment.server.client.call({ method: 'POST', path: pathOf(resource, namespace), body });

  /** One more replica: a process of the gateway, and its pod, whose name this returns. */
  readonly addReplica = async (ready = true): Promise<string> => {
    const at = this.replicas.push(await this.startReplica());
    const name = `egress-${at}`;
    await this.make(POD, {
      metadata: this.#named(name),
      spec: { containers: [{ name: 'egress', image: 'x' }] },
    });
    await this.started(name, 'containerd://1', `127.0.0.${10 + at}`, ready);
    return name;
  };

  readonly startReplica = (): Promise<Service> => {
    const config = readConfig({
      SPACE_NAME: this.space.names.space,
      LISTEN_HOST: '127.0.0.1',
      DATA_PORT: '0',
      CONTROL_PORT: '0',
      METRICS_PORT: '0',
      PROVISIONER_TOKEN_FILE: join(this.#directory, 'token'),
      CUSTODY_KEY_FILE: join(this.#directory, 'ring'),
      FIXED_HOSTS: 'api.bank.org=127.0.0.1:1',
    });
    return startService(config, createLogger({ service: 'egress', level: 'silent' }));
  };

  /** The pod of a replica runs this container, which is another one after a restart. */
  readonly started = async (
    name: string,
    containerID: string,
    podIP: string,
    ready = true,
  ): Promise<void> => {
    const container = {
      name: 'egress',
      image: '',
      imageID: '',
      ready,
      started: true,
      restartCount: 0,
      containerID,
      state: { running: {} },
    };
    await this.#patch(pathOf(POD, this.space.names.servicesNamespace, name, 'status'), {
      status: {
        phase: 'Running',
        podIP,
        podIPs: [{ ip: podIP }],
        conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }],
        containerStatuses: [container],
      },
    });
  };

  /** The gateway's keys from now on; the first one seals. */
  readonly keep = (primary: string, ...others: readonly string[]): void => {
    const keys = [primary, ...others].map((id) => [id, createHash('sha256').update(id).digest('base64url')]);
    const ring = { primary, keys: Object.fromEntries(keys) };
    writeFileSync(join(this.#directory, 'ring'), JSON.stringify(ring), { mode: 0o600 });
  };

  /** How the gateway answers the Assistant's own principal for a CONNECT. */
  readonly connectTo = async (host: string, at = 0, from = '127.0.0.1'): Promise<string> =>
    codeOfConnect(await this.#caller(at, from), host);

  /** The same for the principal of now, whatever becomes of its Secret. */
  readonly asNow = async (at = 0): Promise<(host: string) => Promise<string>> => {
    const caller = await this.#caller(at);
    return (host) => codeOfConnect(caller, host);
  };

  /** How it answers the Assistant for a stored input. */
  readonly useOf = async (key: string): Promise<string> => codeOfUse(await this.#caller(), key);

  readonly settles = (host: string, code: string, at = 0, from = '127.0.0.1') =>
    eventually(async () => (await this.connectTo(host, at, from)) === code, {
      what: `CONNECT ${host} from ${from} is ${code}`,
    });

  /** How it answers an unknown caller. */
  readonly strangerIs = (code: string, at = 0) =>
    eventually(
      async () => (await codeOfConnect(this.#callerWith(newToken('egr').reveal(), at), 'a.org')) === code,
      {
        what: `a stranger is ${code}`,
      },
    );

  /** The Assistant's pod has another address, as one that replaces it has. */
  readonly replacedAt = async (ip: string): Promise<void> => {
    const namespace = this.space.namespaceOf(this.home);
    const [pod] = await this.space.list<kinds.Pod>(POD, namespace);
    await this.#patch(pathOf(POD, namespace, pod?.metadata.name ?? '', 'status'), {
      status: { podIP: ip, podIPs: [{ ip }] },
    });
  };

  /** A person enters a value for the input `bank`. */
  readonly enter = (
    value: string,
    labels: Record<string, string> = { [LABEL.capsule]: this.home },
    type = STORED_INPUT_TYPE,
  ) =>
    this.make(
      SECRET,
      { metadata: { name: 'bank-key', labels }, type, stringData: { value } },
      this.space.names.namespace,
    );

  /** A person or a tool writes a Secret, without any event to the operator. */
  readonly write = (body: object, namespace = this.space.names.namespace, name = 'bank-key') =>
    this.#patch(pathOf(SECRET, namespace, name), body);

  readonly say = (type: string, status: string) => this.space.becomes(ASSISTANT, 'ledger', type, status);

  /** Another manifest asks for the input `bank` like this. */
  readonly asks = (bank: object) =>
    this.space.patch(ASSISTANT, 'ledger', { spec: { manifest: { stored_inputs: { bank } } } });

  /** Secrets are not watched: a person's next look at the Assistant is what an annotation is here. */
  readonly touch = () =>
    this.space.patch(ASSISTANT, 'ledger', { metadata: { annotations: { looked: String(Math.random()) } } });

  #named(name: string) {
    return {
      name,
      labels: { [LABEL.space]: this.space.names.space, [LABEL.component]: 'egress' },
    };
  }

  #patch(path: string, body: object) {
    const contentType = 'application/merge-patch+json';
    return this.environment.server.client.call({ method: 'PATCH', path, contentType, body });
  }

  /** A program with the Assistant's own principal. */
  async #caller(at = 0, from?: string): Promise<Caller> {
    const namespace = this.space.namespaceOf(this.home);
    const secret = await this.space.get<kinds.SecretObject>(SECRET, 'ledger-egress', namespace);
    const principal = Buffer.from(secret?.data?.['EGRESS_TOKEN'] ?? '', 'base64').toString();
    return this.#callerWith(principal, at, from);
  }

  #callerWith(principal: string, at: number, from = '127.0.0.1'): Caller {
    return { principal, from, port: this.replicas[at]?.dataPort ?? 1 };
  }
}

function opened<T>(part: T | undefined): T {
  if (part === undefined) throw new Error('only a test has a Space');
  return part;
}
