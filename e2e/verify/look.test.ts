import { execFile, spawn } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { freePort } from '../../testing/ports.ts';
import { resultsIn, TRY_TARGETS } from './look.ts';

const run = promisify(execFile);
const look = async (...args: readonly string[]) =>
  resultsIn((await run('perl', ['-e', TRY_TARGETS, ...args])).stdout) ?? new Map();

describe('the program that tries targets', () => {
  it('is short enough for an argument of a manifest', () => {
    expect(TRY_TARGETS.length).toBeLessThanOrEqual(4_096);
  });

  it('contains nothing that the kubelet expands as a variable, since it turns two $ into one', () => {
    expect(TRY_TARGETS).not.toMatch(/\$[$(]/);
  });

  it('reports what answers, what refuses and what is silent, over TCP and UDP', async () => {
    const server = createServer((socket) => socket.end()).listen(0, '127.0.0.1');
    const echo = createSocket('udp4').on('message', (said, { port, address }) =>
      echo.send(said, port, address),
    );
    const mute = createSocket('udp4');
    const gone = createServer().listen(0, '127.0.0.1');
    await Promise.all([once(server, 'listening'), once(gone, 'listening')]);
    for (const socket of [echo, mute]) await new Promise<void>((ready) => socket.bind(0, '127.0.0.1', ready));
    const [open, closed] = [server, gone].map((one) => (one.address() as AddressInfo).port);
    await new Promise((ended) => gone.close(ended));
    const [answering, silent] = [echo, mute].map((one) => one.address().port);
    try {
      const targets = [`+tcp 127.0.0.1 ${open}`, `tcp 127.0.0.1 ${closed}`, `udp 127.0.0.1 ${answering}`];
      const more = [`udp 127.0.0.1 ${silent}`, `udp 127.0.0.1 ${closed}`];
      const seen = await look('1', '20', targets.join(), more.join());
      expect(Object.fromEntries([...seen].map(([target, { seen: how }]) => [target, how]))).toEqual({
        [`tcp 127.0.0.1 ${open}`]: 'connected',
        [`tcp 127.0.0.1 ${closed}`]: 'refused',
        [`udp 127.0.0.1 ${answering}`]: 'connected',
        [`udp 127.0.0.1 ${silent}`]: 'silence',
        [`udp 127.0.0.1 ${closed}`]: 'refused',
      });
      expect(seen.get(`tcp 127.0.0.1 ${closed}`)?.tried).toBeGreaterThan(3);
    } finally {
      server.close();
      echo.close();
      mute.close();
    }
  });

  it.each(['127.0.0.1', '::1'])(
    'listens at %s when it has finished, while others try it',
    async (address) => {
      const port = await freePort();
      const listening = spawn('perl', ['-e', TRY_TARGETS, '0', '0'], {
        env: { ...process.env, LISTEN: `${port}` },
      });
      try {
        await once(listening.stdout, 'data');
        const target = `tcp ${address} ${port}`;
        expect((await look('1', '20', `+${target}`)).get(target)?.seen).toBe('connected');
      } finally {
        listening.kill();
      }
    },
  );

  it('prints nothing before it has finished, and nothing about unknown targets', () => {
    expect(resultsIn('tcp 10.0.0.1 80\tconnected\t1\t0\n')).toBeUndefined();
    expect(
      resultsIn('warning: x\ntcp 10.0.0.1 80\tsilence\t4\t-\ntcp 10.0.0.1 81\tblue\t1\t-\ndone\n'),
    ).toEqual(new Map([['tcp 10.0.0.1 80', { seen: 'silence', tried: 4 }]]));
  });
});
