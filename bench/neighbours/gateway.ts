import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { newToken } from '../../brokers/kit/index.ts';
import { type Fixture, HOST, OTHER_HOST, openFixture, VALUE } from '../egress/fixture.ts';
import { startGatewayPod } from '../egress/pod.ts';
import { type Act, headOf } from './acts.ts';
import { HOSTILE, MANY_ADDRESSES, type ServiceUnderTest, STRANGER } from './service-under-test.ts';

/** A value that is expensive to search for in an answer that repeats its first letter, since it could begin anywhere. */
const PERIODIC = `${'a'.repeat(4_080)}bcdefghijklmnop`;
const ROUTES = ['/v1/rates', '/v1/large', '/v1/letters'];

/**
 * Starts the gateway as in its pod, with two Capsules with an Assistant and an outside host each: a host that one of them keeps
 * busy would answer the other one late, which no gateway can prevent.
 */
export async function openGateway(): Promise<ServiceUnderTest> {
  const fixture = await openFixture();
  const closers: (() => unknown)[] = [fixture.remove];
  const close = async () => {
    for (const closer of closers.toReversed()) await closer();
  };
  try {
    const upstream = await startUpstream(fixture, fixture.leaf, 'leaf');
    closers.push(upstream.stop);
    const other = await startUpstream(fixture, fixture.otherLeaf, 'other');
    closers.push(other.stop);
    const pod = await startGatewayPod(fixture, upstream.port, {
      FIXED_HOSTS: `${HOST}=127.0.0.1:${upstream.port},${OTHER_HOST}=127.0.0.1:${other.port}`,
    });
    closers.push(pod.stop);
    const quiet = newToken('egr').reveal();
    const hostile = newToken('egr').reveal();
    const routes = ROUTES.map((path) => ({ method: 'GET' as const, path }));
    await pod.admit({ capsule: 'quiet', principal: quiet, address: '127.0.0.1', routes, value: VALUE });
    const greedy = { capsule: 'hostile', principal: hostile, address: HOSTILE, host: OTHER_HOST };
    await pod.admit({ ...greedy, routes, value: PERIODIC });
    const agent = new Agent({ keepAlive: true });
    closers.push(() => agent.destroy());
    const scene = sceneOf(pod.port, fixture, quiet, hostile, agent);
    const entered = { 'values entered again and again': [sealing(pod.control)] };
    return { ...scene, hostile: { ...scene.hostile, ...entered }, close };
  } catch (error) {
    await close();
    throw error;
  }
}

function sceneOf(
  port: number,
  fixture: Fixture,
  quiet: string,
  hostile: string,
  agent: Agent,
): Omit<ServiceUnderTest, 'close'> {
  const by = { port, from: HOSTILE } as const;
  const input = (path: string, principal: string) =>
    headOf(`GET /i/bank${path}`, {
      host: 'assistant-egress',
      authorization: `Bearer ${principal}`,
      connection: 'close',
    });
  const kept = headOf('GET /i/bank/v1/rates', {
    host: 'assistant-egress',
    authorization: `Bearer ${newToken('egr').reveal()}`,
  });
  return {
    habits: [
      { name: 'injection', perSecond: 30, once: () => injection(port, quiet, agent) },
      { name: 'tunnel', perSecond: 5, once: () => handshakeThrough(port, quiet, fixture.authorityPem) },
    ],
    hostile: {
      'pipelining of wrong principals': [
        { kind: 'pipelined', port, from: STRANGER, head: kept, times: 3_000, perSecond: 20 },
      ],
      'flood of wrong principals': [
        {
          kind: 'requests',
          port,
          from: STRANGER,
          head: input('/v1/rates', newToken('egr').reveal()),
          perSecond: 200,
        },
      ],
      'slow readers of answers': [
        { ...by, kind: 'slow-reads', head: input('/v1/large', hostile), connections: 64 },
      ],
      'downloads as fast as they come': [
        { ...by, kind: 'requests', head: input('/v1/large', hostile), perSecond: 10 },
      ],
      'silent sockets': [{ kind: 'silent', port, from: [HOSTILE, ...MANY_ADDRESSES], each: 256 }],
      'periodic values to scrub': [
        { ...by, kind: 'requests', head: input('/v1/letters', hostile), perSecond: 5 },
      ],
      'requests up to its rate': [
        { ...by, kind: 'requests', head: input('/v1/rates', hostile), perSecond: 150 },
      ],
      tunnels: [
        {
          ...by,
          kind: 'tunnels',
          head: headOf(`CONNECT ${OTHER_HOST}:443`, {
            host: `${OTHER_HOST}:443`,
            'proxy-authorization': `Bearer ${hostile}`,
          }),
          kept: 64,
          perSecond: 50,
        },
      ],
    },
    settle: () => new Promise((resolve) => setTimeout(resolve, 2_000)),
  };
}

/** What the operator requests when an owner keeps entering other values. */
function sealing({ port, provisioner }: Awaited<ReturnType<typeof startGatewayPod>>['control']): Act {
  const body = JSON.stringify({
    capsule_id: 'hostile',
    app_id: 'caller',
    assistant_uid: 'uid-hostile',
    input: 'bank',
    definition: { host: OTHER_HOST, routes: [{ method: 'GET', path: '/v1/rates' }], header: 'X-Api-Key' },
    value: PERIODIC,
  });
  const head = headOf('POST /v1/inputs/seal', {
    host: 'assistant-egress',
    authorization: `Bearer ${provisioner}`,
    'content-type': 'application/json',
    'content-length': body.length,
    connection: 'close',
  });
  return { kind: 'requests', port, from: HOSTILE, head, body: [body, 1], perSecond: 50 };
}

/** Sends one request with the stored input, on a connection that stays open. */
function injection(port: number, principal: string, agent: Agent): Promise<void> {
  const headers = { host: 'assistant-egress', authorization: `Bearer ${principal}` };
  return new Promise((resolve, reject) => {
    request({ host: '127.0.0.1', port, path: '/i/bank/v1/rates', headers, agent }, (response) => {
      response.resume().once('error', reject);
      response.once('end', () => {
        if (response.statusCode === 200) resolve();
        else reject(new Error(`the injection was answered with status ${response.statusCode}`));
      });
    })
      .on('error', reject)
      .end();
  });
}

/** Opens a tunnel and completes a TLS handshake in it. */
async function handshakeThrough(port: number, principal: string, ca: string): Promise<void> {
  const socket: Socket = connect({ port, host: '127.0.0.1' });
  try {
    await once(socket, 'connect');
    const headers = { host: `${HOST}:443`, 'proxy-authorization': `Bearer ${principal}` };
    socket.write(headOf(`CONNECT ${HOST}:443`, headers));
    const [head] = await once(socket, 'data');
    if (!String(head).startsWith('HTTP/1.1 200'))
      throw new Error(`the tunnel was answered with ${String(head).slice(0, 12)}`);
    const secure = connectTls({ socket, servername: HOST, ca });
    await once(secure, 'secureConnect');
    secure.destroy();
  } finally {
    socket.destroy();
  }
}

async function startUpstream({ directory }: Fixture, leaf: Fixture['leaf'], name: string) {
  const file = async (name: string, text: string) => {
    await writeFile(join(directory, name), text);
    return join(directory, name);
  };
  const program = join(import.meta.dirname, 'upstream-process.ts');
  const args = [program, await file(`${name}.pem`, leaf.cert), await file(`${name}.key`, leaf.key)];
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const [line] = await once(child.stdout.setEncoding('utf8'), 'data');
  return {
    ...(JSON.parse(line) as { readonly port: number }),
    stop: async () => {
      const gone = once(child, 'exit');
      child.stdin.end();
      await gone;
    },
  };
}
