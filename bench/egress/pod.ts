import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import type { PolicyPut } from '../../brokers/contracts/egress.ts';
import { newToken } from '../../brokers/kit/index.ts';
import { bundle } from '../../scripts/bundle.ts';
import { podCommand } from '../../testing/installed/image.ts';
import { type Program, watchProcess } from '../objectstore/program.ts';
import { type Fixture, HOST, VALUE } from './fixture.ts';

/** This gateway as in its pod, with one Assistant that has one stored input and may reach one host. */
export interface Pod extends Pick<Program, 'cpuSeconds' | 'peakMib' | 'stop'> {
  readonly port: number;
  /** The principal of the only caller. */
  readonly principal: string;
}

const PROGRAM = resolve('dist/egress/main.mjs');
/** Above what any load here needs. Only the limit of open requests is the default. */
const UNLIMITED = '1000000';

export async function startPod(fixture: Fixture, upstream: number): Promise<Pod> {
  const pod = await startGatewayPod(fixture, upstream, {
    // A share must be below the total.
    CALLER_CONNECTIONS: '2048',
    CAPSULE_CONNECTIONS: '2048',
    CALLER_TUNNELS: UNLIMITED,
    CALLER_PER_SECOND: UNLIMITED,
    CALLER_BURST: UNLIMITED,
    CAPSULE_PER_SECOND: UNLIMITED,
  });
  const principal = newToken('egr').reveal();
  try {
    const routes = [{ method: 'GET' as const, path: '/v1/rates' }];
    await pod.admit({ capsule: 'bench', principal, address: '127.0.0.1', routes, value: VALUE });
  } catch (error) {
    await pod.stop();
    throw error;
  }
  return { ...pod, principal };
}

/** One Assistant of a Capsule, whose one stored input goes to one host. */
interface Admission {
  readonly capsule: string;
  readonly principal: string;
  /** The address of its pod. */
  readonly address: string;
  readonly routes: readonly { readonly method: 'GET'; readonly path: string }[];
  readonly value: string;
  /** The host that it may reach; by default that of the fixture. */
  readonly host?: string;
}

/** The gateway in a process of its own, without policies yet. */
interface GatewayPod extends Omit<Pod, 'principal'> {
  /** The listener for the operator, and its token. */
  readonly control: { readonly port: number; readonly provisioner: string };
  /** Sends it the policy of an Assistant, as the operator does. */
  admit(admission: Admission): Promise<void>;
}

/** `limits` are environment variables in addition to those of every pod. */
export async function startGatewayPod(
  fixture: Fixture,
  upstream: number,
  limits: Readonly<Record<string, string>>,
): Promise<GatewayPod> {
  await bundle('egress');
  const command = await podCommand('brokers/egress/Dockerfile', 'egress');
  const provisioner = newToken('prv').reveal();
  const file = async (name: string, text: string) => {
    await writeFile(join(fixture.directory, name), text, { mode: 0o600 });
    return join(fixture.directory, name);
  };
  const environment = {
    SPACE_NAME: 'bench',
    LISTEN_HOST: '127.0.0.1',
    DATA_PORT: '0',
    CONTROL_PORT: '0',
    METRICS_PORT: '0',
    PROVISIONER_TOKEN_FILE: await file('token', provisioner),
    CUSTODY_KEY_FILE: await file(
      'ring',
      JSON.stringify({ primary: 'k1', keys: { k1: randomBytes(32).toString('base64url') } }),
    ),
    FIXED_HOSTS: `${HOST}=127.0.0.1:${upstream}`,
    UPSTREAM_CA_FILE: fixture.authority,
    ...limits,
  };
  const child = spawn(process.execPath, [...command.flags, PROGRAM], {
    env: { PATH: process.env['PATH'], ...command.environment, ...environment },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const gone = once(child, 'exit').then(() => undefined);
  const ports = await new Promise<{ dataPort: number; controlPort: number }>((found, failed) => {
    const lines = createInterface({ input: child.stdout }).on('line', (line) => {
      if (!line.includes('"listening"')) return;
      lines.close();
      // The log has a line for every request; it is read like by a container's runtime, and discarded.
      child.stdout.resume();
      found(JSON.parse(line));
    });
    gone.then(() => failed(new Error('the gateway did not start')));
  });
  // SIGKILL would prevent it from writing a profile.
  const stop = async () => {
    child.kill('SIGTERM');
    await gone;
  };
  return {
    port: ports.dataPort,
    control: { port: ports.controlPort, provisioner },
    ...watchProcess(child.pid ?? 0),
    admit: (admission) => admit(`http://127.0.0.1:${ports.controlPort}`, provisioner, admission),
    stop,
  };
}

async function admit(control: string, provisioner: string, admission: Admission): Promise<void> {
  const post = async (path: string, body: object) => {
    const headers = { authorization: `Bearer ${provisioner}`, 'content-type': 'application/json' };
    const response = await fetch(`${control}${path}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as { readonly envelope: string; readonly instance: string };
  };
  const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');
  const { capsule, principal, address, routes, value, host = HOST } = admission;
  const assistant = { capsule_id: capsule, app_id: 'caller', assistant_uid: `uid-${capsule}` };
  const definition = { host, routes: [...routes], header: 'X-Api-Key' };
  const { envelope } = await post('/v1/inputs/seal', {
    ...assistant,
    input: 'bank',
    definition,
    value,
  });
  const { instance } = await post('/v1/policies/put', {
    ...assistant,
    generation: 1,
    revision: sha256(capsule),
    principals: [sha256(principal)],
    addresses: [address],
    allowed_hosts: [host],
    stored_inputs: { bank: { definition, envelope } },
  } satisfies PolicyPut);
  // After this, the gateway refuses unknown principals.
  await post('/v1/replicas/in-step', { instance });
}
