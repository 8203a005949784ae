/**
 * Tries every payload on a gateway and prints, as one JSON line, which connections it asked the kernel to open. To be run
 * in a network namespace of its own: there each address of IPv4 and IPv6 is local, and somebody listens on its port 443.
 */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { connect, createServer } from 'node:net';
import { type AddressGuard, addressGuard, cached, dnsResolve } from '@space/broker-kit';
import { makePki } from '../../../testing/certificates.ts';
import { plainAddress } from '../policies/policies.ts';
import { startDns } from './dns.ts';
import { basic, makeGateway, type TestGateway } from './gateway.ts';
import { PAYLOADS, type Payload, PUBLIC_V4, PUBLIC_V6, scheduled } from './ssrf.ts';

/** What became of one payload. */
export interface Attempt {
  readonly kind: Payload['kind'];
  readonly host: string;
  /** The gateway's refusals, or `200`. */
  readonly codes: readonly string[];
  /** SYNs that the gateway made the kernel send, and those of them that went to public addresses. */
  readonly opened: number;
  readonly public: number;
  /** Addresses, none of them public, at which a connection arrived. */
  readonly denied: readonly string[];
}

export interface SsrfReport {
  readonly guarded: readonly Attempt[];
  /** The same with a guard that permits everything: what the counting would have seen. */
  readonly open: readonly Attempt[];
}

const BANK = 'api.bank.org';
const QUESTIONS = 4;
/** Whatever else this machine does: what is refused here is refused for its address, not for its slowness. */
const PATIENT_MS = 60_000;
const REDIRECTS = [301, 302, 303, 307, 308];
const PUBLIC = new Set([PUBLIC_V4, PUBLIC_V6]);

for (const line of ['link set lo up', 'route add local 0.0.0.0/0 dev lo', '-6 route add local ::/0 dev lo'])
  execFileSync('ip', line.split(' '));

const pki = await makePki();
let location = '';
let redirects = 0;
const bank = createTlsServer(await pki.issue(BANK), (_, response) => {
  redirects += 1;
  response.writeHead(REDIRECTS[redirects % REDIRECTS.length] ?? 302, { location }).end();
});
const arrived: string[] = [];
const everywhere = createServer((socket) => {
  const to = plainAddress(socket.localAddress ?? '');
  arrived.push(to);
  socket.on('error', () => undefined);
  if (to === PUBLIC_V4) bank.emit('connection', socket);
  else socket.end();
});
await once(everywhere.listen(443, '::'), 'listening');

/** Connections that processes of this namespace have begun to open, whatever became of them. */
function begun(): number {
  const [names = '', values = ''] = readFileSync('/proc/net/snmp', 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('Tcp:'));
  return Number(values.split(' ')[names.split(' ').indexOf('ActiveOpens')]);
}

async function tryAll(payloads: readonly Payload[], guard: AddressGuard): Promise<Attempt[]> {
  const bankAt = { kind: 'answer' as const, host: BANK, schedule: [{ addresses: [PUBLIC_V4] }] };
  const dns = await startDns(scheduled([...payloads, bankAt]));
  const limits = {
    perSecond: 1e6,
    burst: 1e6,
    capsulePerSecond: 1e6,
    connectMs: PATIENT_MS,
    unknownWaitMs: PATIENT_MS,
  };
  const resolve = cached(dnsResolve([dns.address], PATIENT_MS));
  const test = await makeGateway({ authorities: pki.authority, resolve, guard, limits });
  await test.put(
    { allowed_hosts: payloads.map(({ host }) => host) },
    { bank: { host: BANK, routes: [{ method: 'GET', path: '/v1' }], header: 'X-Api-Key' } },
  );
  const attempts: Attempt[] = [];
  for (const payload of payloads) attempts.push(await attempt(test, payload));
  await test.close();
  await dns.close();
  return attempts;
}

async function attempt(test: TestGateway, { kind, host, schedule }: Payload): Promise<Attempt> {
  const [before, seen] = [begun(), arrived.length];
  const codes: string[] = [];
  const times = kind === 'rebinding' ? QUESTIONS : 1;
  for (let time = 0; time < times; time += 1)
    codes.push(kind === 'redirect' ? await redirected(test, host) : await tunnel(test, host));
  const opened = begun() - before - times;
  // A connection that was opened arrives, at the latest, before a later one to the same listener.
  await settled();
  const mine = arrived.slice(seen);
  return {
    kind,
    host:
      schedule === undefined
        ? host
        : `${host} at ${schedule.map(({ addresses }) => addresses).join(' then ')}`,
    codes,
    opened,
    public: mine.filter((to) => PUBLIC.has(to)).length,
    denied: mine.filter((to) => !PUBLIC.has(to) && to !== WITNESS),
  };
}

/** An address of the run's own, that no payload has. */
const WITNESS = '127.99.99.99';

async function settled(): Promise<void> {
  const before = arrived.filter((to) => to === WITNESS).length;
  const socket = connect(443, WITNESS);
  await once(socket, 'close', { signal: AbortSignal.timeout(PATIENT_MS) });
  if (arrived.filter((to) => to === WITNESS).length === before) throw new Error('the listener is deaf');
}

function tunnel(test: TestGateway, host: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(test.port, '127.0.0.1');
    let head = '';
    socket.setEncoding('latin1').on('error', reject);
    socket.on('data', (text) => {
      head += text;
      if (head.includes('\r\n\r\n')) socket.destroy();
    });
    socket.on('close', () => resolve(codeIn(head)));
    const fields = `proxy-authorization: ${basic(test.principal)}\r\n\r\n`;
    socket.write(Buffer.from(`CONNECT ${host}:443 HTTP/1.1\r\n${fields}`, 'latin1'));
  });
}

const codeIn = (head: string) =>
  /platform-egress-error: (\w+)/.exec(head)?.[1] ?? /^HTTP\/1\.1 (\d+)/.exec(head)?.[1] ?? 'nothing';

function redirected(test: TestGateway, to: string): Promise<string> {
  location = to;
  const headers = { host: 'assistant-egress', authorization: `Bearer ${test.principal}` };
  return new Promise((resolve, reject) => {
    const outgoing = request({ port: test.port, path: '/i/bank/v1', headers, agent: false }, (response) => {
      const same = response.headers.location === to;
      response.resume().on('end', () => resolve(same ? `${response.statusCode}` : 'changed'));
    });
    outgoing.on('error', reject).end();
  });
}

const everything = addressGuard({ allowed: ['0.0.0.0/0', '::/0'] });
const resolving = PAYLOADS.filter(({ schedule }) => schedule !== undefined);
const report: SsrfReport = {
  guarded: await tryAll(PAYLOADS, addressGuard()),
  open: await tryAll(resolving, everything),
};
await pki.remove();
process.stdout.write(`${JSON.stringify(report)}\n`, () => process.exit());
