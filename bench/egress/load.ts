import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { run } from '../../e2e/cluster/run.ts';
import { fromDebian } from '../../testing/installed/debian.ts';
import { freePort } from '../../testing/ports.ts';
import { quantile } from '../../testing/report.ts';
import { HOST } from './fixture.ts';

/** The number of callers at the same time. */
export const CALLERS = 16;

export interface Measured {
  readonly count: number;
  /** Also contains requests whose times are not reported; the processor time is that of all of them. */
  readonly asked: number;
  readonly p50: number;
  readonly p99: number;
  readonly perSecond: number;
}

const UNITS: Readonly<Record<string, number>> = { us: 0.001, ms: 1, s: 1_000 };

/** Sends requests with wrk as fast as they are answered; wrk recognises the header `Host` only in this spelling. Times are in ms. @throws if a request does not succeed */
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

/** Each caller opens tunnels one after another, each until the host's first byte. */
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
          // 22 is a handshake message, 21 would be an alert.
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

/** The first message of a TLS client. It is sent again for each tunnel, so that the caller needs little processor time. */
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
