import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { run } from '../../e2e/cluster/run.ts';
import { fromDebian } from '../../testing/installed/debian.ts';
import { freePort } from '../../testing/ports.ts';
import { quantile } from '../../testing/report.ts';
import { HOST } from './fixture.ts';

/** Callers at once. */
export const CALLERS = 16;

export interface Measured {
  readonly count: number;
  /** With those whose times are not told; processor time is for all of them. */
  readonly asked: number;
  readonly p50: number;
  readonly p99: number;
  readonly perSecond: number;
}

const UNITS: Readonly<Record<string, number>> = { us: 0.001, ms: 1, s: 1_000 };

/** Requests as fast as they are answered, by wrk (which looks for a header `Host` in this spelling). Times in ms. @throws when any of them is not answered with success */
export async function requests(url: string, headers: readonly string[], seconds: number): Promise<Measured> {
  const wrk = await fromDebian('wrk', 'usr/bin/wrk');
  const fields = headers.flatMap((header) => ['-H', header]);
  const args = ['-t1', `-c${CALLERS}`, `-d${seconds}s`, '--latency', '--timeout', '30s', ...fields, url];
  const text = await run([wrk.program, ...args], { env: { ...process.env, ...wrk.env } });
  const at = (share: number) => {
    const [, value, unit = ''] = new RegExp(`^ +${share}% +([0-9.]+)([mu]?s) *$`, 'm').exec(text) ?? [];
    return Number(value) * (UNITS[unit] ?? Number.NaN);
  };
  const count = Number(/^ +(\d+) requests in/m.exec(text)?.[1]);
  const perSecond = Number(/^Requests\/sec: +([0-9.]+)/m.exec(text)?.[1]);
  if (/Non-2xx|Socket errors/.test(text) || !(count > 0)) throw new Error(`${url}:\n${text}`);
  return { count, asked: count, p50: at(50), p99: at(99), perSecond };
}

/** Tunnels opened one after the other by each caller, each until the first byte that the host sends back. */
export async function tunnels(
  port: number,
  target: string,
  headers: readonly string[],
  seconds: number,
): Promise<Measured> {
  const hello = await clientHello();
  const fields = headers.map((header) => `${header}\r\n`).join('');
  const head = `CONNECT ${target} HTTP/1.1\r\nhost: ${target}\r\n${fields}\r\n`;
  const open = () =>
    new Promise<void>((resolve, reject) => {
      const socket = connect(port, '127.0.0.1', () => socket.write(head));
      const fail = () => reject(new Error(`the tunnel to ${target} ended before a TLS handshake`));
      socket.on('error', reject).on('close', fail);
      socket.once('data', (answer) => {
        if (!String(answer).startsWith('HTTP/1.1 200') && !String(answer).startsWith('HTTP/1.0 200'))
          return reject(new Error(String(answer).slice(0, 200)));
        socket.write(hello);
        socket.once('data', (bytes) => {
          socket.off('close', fail).destroy();
          // 22: the host's half of the handshake; 21 would be an alert.
          if (bytes[0] === 22) resolve();
          else reject(new Error('the host did not answer with a TLS handshake'));
        });
      });
    });
  const ms: number[] = [];
  const began = performance.now();
  const caller = async () => {
    while (performance.now() - began < seconds * 1_000) {
      const at = performance.now();
      await open();
      ms.push(performance.now() - at);
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
  const perSecond = ms.length / ((performance.now() - began) / 1_000);
  return { count: ms.length, asked: ms.length, p50: quantile(ms, 0.5), p99: quantile(ms, 0.99), perSecond };
}

/** What a TLS client sends first; sent again for each tunnel, so that the caller's own work is small. */
async function clientHello(): Promise<Buffer> {
  const port = await freePort();
  const server = createServer().listen(port, '127.0.0.1');
  await once(server, 'listening');
  const client = connectTls({ port, host: '127.0.0.1', servername: HOST });
  client.on('error', () => undefined);
  const [socket] = await once(server, 'connection');
  const [bytes] = await once(socket, 'data');
  client.destroy();
  server.close();
  return bytes as Buffer;
}
