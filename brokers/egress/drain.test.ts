import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Agent, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { openReplicas, type Replicas } from './testing/replica.ts';

const NEVER = 10 * 60;

let replicas: Replicas;
beforeAll(async () => {
  replicas = await openReplicas();
});
afterAll(() => replicas.close());

/** A request whose answer its upstream has not begun; `answer` lets it. */
async function pending(port: number) {
  const { promise: arrived, resolve } = Promise.withResolvers<ServerResponse>();
  replicas.upstream.answer = (_, response) => resolve(response);
  const headers = { host: 'assistant-egress', authorization: `Bearer ${replicas.principal}` };
  const outgoing = request({ host: '127.0.0.1', port, path: '/i/bank/v1', headers, agent: false }).end();
  const answered = once(outgoing, 'response') as Promise<[IncomingMessage]>;
  const held = await arrived;
  return {
    answer: () => held.end('late'),
    status: answered.then(([response]) => response.resume().statusCode),
  };
}

const refused = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(false);
    });
    socket.on('error', () => resolve(true));
  });

const start = (drainSeconds: number) => replicas.start({ DRAIN_SECONDS: String(drainSeconds) });

describe('a replica that is told to end', () => {
  it('accepts nothing new, and lets requests and tunnels end by themselves', async () => {
    const service = await start(NEVER);
    const [open, slow] = [await replicas.tunnel(service.dataPort), await pending(service.dataPort)];
    const stopped = service.stop();
    while (!(await refused(service.dataPort))) await new Promise((resolve) => setTimeout(resolve, 5));
    slow.answer();
    expect(await slow.status).toBe(200);
    expect(open.destroyed).toBe(false);
    open.destroy();
    expect(await stopped).toBe(true);
  });

  it('continues to serve callers for a while, since some are still sent to it, and ends their connections', async () => {
    const service = await replicas.start({ LEAVE_SECONDS: '60' });
    void service.stop();
    const open = await replicas.tunnel(service.dataPort);
    expect(open.destroyed).toBe(false);
    open.destroy();
    const { headers } = await new Promise<IncomingMessage>((resolve, reject) => {
      const agent = new Agent({ keepAlive: true });
      request({ host: '127.0.0.1', port: service.dataPort, path: '/i/bank/v1', agent }, resolve)
        .on('error', reject)
        .end();
    });
    expect(headers.connection).toBe('close');
  });

  it('ends what has not ended in time, without an error', async () => {
    const service = await start(1);
    const [open, slow] = [await replicas.tunnel(service.dataPort), await pending(service.dataPort)];
    const cut = [once(open, 'close'), expect(slow.status).rejects.toThrow()];
    expect(await service.stop()).toBe(true);
    await Promise.all(cut);
  });

  it('ends its process at SIGTERM, although a caller keeps its connection', async () => {
    const child = spawn(process.execPath, [join(import.meta.dirname, 'main.ts')], {
      env: { ...process.env, ...replicas.environment },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    const ended = once(child, 'exit');
    let ports: { readonly dataPort: number; readonly controlPort: number } | undefined;
    for await (const line of createInterface({ input: child.stdout })) {
      const told = JSON.parse(line);
      if (told.msg !== 'listening') continue;
      ports = told;
      break;
    }
    child.stdout.resume();
    if (ports === undefined) throw new Error('it did not start');
    await replicas.permit(ports.controlPort);
    const idle = connect(ports.dataPort, '127.0.0.1').on('error', () => undefined);
    idle.write('GET / HTTP/1.1\r\nhost: assistant-egress\r\n\r\n');
    await once(idle, 'data');
    child.kill('SIGTERM');
    expect(await ended).toEqual([0, null]);
  });
});
