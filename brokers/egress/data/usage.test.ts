import { connect, type Socket } from 'node:net';
import type { Definition } from '@space/manifests';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { makePki, type TestPki } from '../../../testing/certificates.ts';
import { basic, digest, makeGateway, type TestGateway } from '../testing/gateway.ts';
import { startUpstream, type TestUpstream } from '../testing/upstream.ts';
import type { DataLimits } from './limits.ts';

/** Two Assistants of one Capsule, and one each of three others, as pods with addresses of their own. */

const HOST = 'api.bank.org';
const NEVER = 60 * 60_000;
const ROUTES: Definition['routes'] = [{ method: 'POST', path: '/v1/transfers' }];
const INPUTS: Readonly<Record<string, Definition>> = {
  key: { host: HOST, routes: ROUTES, header: 'X-Api-Key' },
  signed: { host: HOST, routes: ROUTES, header: 'X-Signature', hmac: 'sha256-body' },
};
const PODS = {
  ledger: { capsule: 'home', address: '127.0.0.2' },
  garden: { capsule: 'home', address: '127.0.0.3' },
  desk: { capsule: 'office', address: '127.0.0.4' },
  shop: { capsule: 'market', address: '127.0.0.5' },
  yard: { capsule: 'farm', address: '127.0.0.6' },
} as const;
type Pod = keyof typeof PODS;
const principalOf = (pod: Pod) => `spc_egr_${pod.padEnd(43, 'A')}`;

let pki: TestPki;
let upstream: TestUpstream;
let test: TestGateway;
const sockets = new Set<Socket>();
/** Answers that the host holds back until they are released. */
const waiting: (() => void)[] = [];

beforeAll(async () => {
  pki = await makePki();
  upstream = await startUpstream(await pki.issue(HOST));
  upstream.answer = (_, response) => void waiting.push(() => response.end('ok'));
});
afterAll(async () => {
  await upstream.close();
  await pki.remove();
});
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
  waiting.length = 0;
  upstream.seen.length = 0;
  await test.close();
});

async function start(limits: Partial<DataLimits>): Promise<void> {
  const fixed = new Map([
    [HOST, { address: '127.0.0.1', port: upstream.port, ttl: 60, trusted: true as const }],
  ]);
  test = await makeGateway({ fixed, authorities: pki.authority, limits: { helloMs: NEVER, ...limits } });
  for (const [pod, { capsule, address }] of Object.entries(PODS)) {
    const whose = { capsule_id: capsule, app_id: pod, assistant_uid: `uid-${pod}` };
    const principals = [digest(principalOf(pod as Pod))];
    await test.put({ ...whose, principals, addresses: [address], allowed_hosts: [HOST] }, INPUTS);
  }
}

function send(pod: Pod, bytes: string) {
  const socket = connect({ port: test.port, host: '127.0.0.1', localAddress: PODS[pod].address });
  sockets.add(socket);
  const seen = { text: '', socket };
  socket.setEncoding('latin1').on('data', (chunk) => {
    seen.text += chunk;
  });
  socket.on('error', () => undefined);
  socket.write(bytes);
  return seen;
}
/** It announces the body that it sends, unless more is to come. */
const post = (pod: Pod, key: string, body = '', length = body.length) =>
  send(
    pod,
    `POST /i/${key}/v1/transfers HTTP/1.1\r\nhost: assistant-egress\r\nauthorization: Bearer ${principalOf(pod)}\r\n` +
      `content-length: ${length}\r\n\r\n${body}`,
  );
const tunnelTo = (host: string, pod: Pod) =>
  send(
    pod,
    `CONNECT ${host}:443 HTTP/1.1\r\nhost: ${host}:443\r\nproxy-authorization: ${basic(principalOf(pod))}\r\n\r\n`,
  );
const tunnel = (pod: Pod) => tunnelTo(HOST, pod);

const until = (happens: () => void | Promise<void>) =>
  vi.waitFor(happens, { timeout: 240_000, interval: 10 });
const answered = (call: { readonly text: string }, status: number) =>
  until(() => expect(call.text).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `)));
const held = (count: number) => until(() => expect(waiting).toHaveLength(count));
const letGo = () => {
  for (const respond of waiting.splice(0)) respond();
};
async function refusedFor(call: { readonly text: string }, status: number, code: string): Promise<void> {
  await answered(call, status);
  expect(call.text).toMatch(new RegExp(`\\r\\nplatform-egress-error: ${code}\\r\\n`));
  expect(call.text).toMatch(/\r\nretry-after: 1\r\n/);
}
async function refusals(): Promise<Readonly<Record<string, number>>> {
  const text = await test.registry.metrics();
  const all = text.matchAll(/^space_egress_share_refused_total\{resource="(\w+)",reason="(\w+)"\} (\d+)$/gm);
  return Object.fromEntries(
    [...all].map(([, resource, reason, count]) => [`${resource} ${reason}`, Number(count)]),
  );
}
/** So many are open now. */
const open = (operation: 'connect' | 'input', count: number) =>
  until(async () => {
    const text = await test.registry.metrics();
    expect(text).toMatch(new RegExp(`^space_egress_open\\{operation="${operation}"\\} ${count}$`, 'm'));
  });

describe('requests', () => {
  it('of two Assistants of one Capsule share its limit, and another Capsule is served', async () => {
    await start({ requests: 2, capsuleRequests: 3, allRequests: 6 });
    const calls = [post('ledger', 'key'), post('ledger', 'key'), post('garden', 'key')];
    await held(3);
    // Its own share would allow it one more.
    await refusedFor(post('garden', 'key'), 429, 'rate_limited');
    const other = post('desk', 'key');
    await held(4);
    letGo();
    for (const call of [...calls, other]) await answered(call, 200);
    expect(await refusals()).toEqual({ 'requests share': 1 });
    await open('input', 0);
    const next = post('garden', 'key');
    await held(1);
    letGo();
    await answered(next, 200);
  });

  it('of Capsules that use all that they get leave some for later ones', async () => {
    await start({ requests: 12, capsuleRequests: 8, allRequests: 16 });
    const most = async (pod: Pod) => {
      const before = waiting.length;
      const calls = Array.from({ length: 12 }, () => post(pod, 'key'));
      await until(() =>
        expect(waiting.length + calls.filter((one) => one.text !== '').length).toBe(before + 12),
      );
      for (const call of calls.filter(({ text }) => text !== '')) await refusedFor(call, 429, 'rate_limited');
      return waiting.length - before;
    };
    expect([await most('ledger'), await most('desk'), await most('shop')]).toEqual([8, 4, 2]);
    const quiet = post('yard', 'key');
    await held(15);
    letGo();
    await answered(quiet, 200);
    expect(await refusals()).toEqual({ 'requests share': 4 + 8 + 10 });
  });

  it('of Capsules that together hold all slots leave none, until one of them is answered', async () => {
    await start({ capsuleRequests: 1, allRequests: 2 });
    for (const pod of ['ledger', 'desk'] as const) post(pod, 'key');
    await held(2);
    await refusedFor(post('shop', 'key'), 503, 'unavailable');
    expect(await refusals()).toEqual({ 'requests full': 1 });
    letGo();
    await open('input', 0);
    const next = post('shop', 'key');
    await held(1);
    letGo();
    await answered(next, 200);
  });
});

describe('requests and tunnels that begin', () => {
  /** So slow that no more than the burst begins while a test runs. */
  const limits = { perSecond: 1e-3, burst: 4, capsulePerSecond: 1.5e-3 };
  const served = async (pod: Pod, count: number) => {
    for (let n = 0; n < count; n += 1) {
      const call = post(pod, 'key');
      await held(1);
      letGo();
      await answered(call, 200);
    }
  };

  it('of all Assistants of a Capsule are limited by its rate, and another Capsule is served', async () => {
    await start(limits);
    await served('ledger', 4);
    // Its own rate is used up, which costs its Capsule nothing.
    await answered(post('ledger', 'key'), 429);
    await served('garden', 1);
    await answered(tunnel('garden'), 200);
    await answered(post('garden', 'key'), 429);
    await answered(tunnel('garden'), 429);
    await served('desk', 4);
  });

  it('end without an answer beyond the same number of refusals', async () => {
    await start(limits);
    await served('ledger', 4);
    for (let n = 0; n < 6; n += 1) await answered(post('ledger', 'key'), 429);
    await until(() => expect(test.log).toHaveLength(10));
    await served('garden', 2);
    for (const again of [post('ledger', 'key'), tunnel('garden'), post('garden', 'key')]) {
      await until(() => expect(again.socket.closed).toBe(true));
      expect(again.text).toBe('');
    }
    await served('desk', 1);
    await until(() => expect(test.log).toHaveLength(13));
    expect(await test.registry.metrics()).toMatch(/^space_egress_turned_away_total\{reason="refusals"\} 3$/m);
  });
});

describe('tunnels', () => {
  it('to hosts that are not allowed end without an answer beyond a number of refusals', async () => {
    await start({ perSecond: 1e-3, burst: 4, capsulePerSecond: 1.5e-3 });
    for (let n = 0; n < 6; n += 1) await answered(tunnelTo('evil.org', 'ledger'), 403);
    await until(() => expect(test.log).toHaveLength(6));
    for (const again of [tunnelTo('evil.org', 'ledger'), tunnelTo('evil.org', 'garden')]) {
      await until(() => expect(again.socket.closed).toBe(true));
      expect(again.text).toBe('');
    }
    expect(await test.registry.metrics()).toMatch(/^space_egress_turned_away_total\{reason="refusals"\} 2$/m);
    await answered(tunnelTo('evil.org', 'desk'), 403);
    await until(() => expect(test.log).toHaveLength(7));
    // What is allowed begins as before.
    await answered(tunnel('ledger'), 200);
  });

  it('of two Assistants of one Capsule share its limit, and another Capsule is served', async () => {
    await start({ tunnels: 2, capsuleTunnels: 3, allTunnels: 6 });
    const [first, ...others] = [tunnel('ledger'), tunnel('ledger'), tunnel('garden')];
    for (const one of [first, ...others]) await answered(one, 200);
    await refusedFor(tunnel('garden'), 429, 'rate_limited');
    await answered(tunnel('desk'), 200);
    expect(await refusals()).toEqual({ 'tunnels share': 1 });
    first.socket.destroy();
    await open('connect', 3);
    await answered(tunnel('garden'), 200);
  });

  it('of Capsules that use all that they get leave some for later ones', async () => {
    await start({ tunnels: 8, capsuleTunnels: 8, allTunnels: 16 });
    const most = async (pod: Pod) => {
      const calls = Array.from({ length: 12 }, () => tunnel(pod));
      await until(() => expect(calls.every(({ text }) => text.startsWith('HTTP/1.1 '))).toBe(true));
      return calls.filter(({ text }) => text.startsWith('HTTP/1.1 200 ')).length;
    };
    expect([await most('ledger'), await most('desk'), await most('shop')]).toEqual([8, 4, 2]);
    await answered(tunnel('yard'), 200);
  });

  it('of Capsules that together hold all slots leave none, until one of them ends', async () => {
    await start({ capsuleTunnels: 1, allTunnels: 2 });
    const tunnels = (['ledger', 'desk'] as const).map(tunnel);
    for (const one of tunnels) await answered(one, 200);
    await refusedFor(tunnel('shop'), 503, 'unavailable');
    expect(await refusals()).toEqual({ 'tunnels full': 1 });
    tunnels[0]?.socket.destroy();
    await open('connect', 1);
    await answered(tunnel('shop'), 200);
  });
});

describe('bodies that are signed', () => {
  const KIB = 1024;
  const body = (kib: number) => 'x'.repeat(kib * KIB);
  const limits = { signedBodyBytes: 64 * KIB, capsuleSignedBytes: 96 * KIB, allSignedBytes: 384 * KIB };

  it('of two Assistants of one Capsule share its limit of bytes, and another Capsule is served', async () => {
    await start(limits);
    // One is held from its head on, before its bytes have come, and one until it is answered.
    const begun = post('ledger', 'signed', 'x', 64 * KIB);
    await open('input', 1);
    const whole = post('garden', 'signed', body(32));
    await held(1);
    await refusedFor(post('garden', 'signed', 'x'), 429, 'rate_limited');
    expect(await refusals()).toEqual({ 'signedBytes share': 1 });
    const other = post('desk', 'signed', body(64));
    await held(2);
    // What is not signed is not held.
    const flowing = post('garden', 'key', body(64));
    await held(3);
    letGo();
    for (const call of [whole, other, flowing]) await answered(call, 200);
    begun.socket.write(body(64).slice(1));
    await held(1);
    letGo();
    await answered(begun, 200);
    expect(upstream.seen.map((one) => one.body.length / KIB)).toEqual([32, 64, 64, 64]);
    expect(await refusals()).toEqual({ 'signedBytes share': 1 });
  });

  it('of Capsules that use all that they get leave some for later ones', async () => {
    await start({ signedBodyBytes: 64 * KIB, capsuleSignedBytes: 128 * KIB, allSignedBytes: 256 * KIB });
    for (const [pod, most] of [
      ['ledger', 8],
      ['desk', 4],
      ['shop', 2],
    ] as const) {
      const calls = Array.from({ length: 10 }, () => post(pod, 'signed', 'x', 16 * KIB));
      await until(() => expect(calls.filter(({ text }) => text === '')).toHaveLength(most));
      for (const call of calls.filter(({ text }) => text !== '')) await refusedFor(call, 429, 'rate_limited');
    }
    await open('input', 14);
    const quiet = post('yard', 'signed', 'x');
    await held(1);
    letGo();
    await answered(quiet, 200);
  });

  it('of Capsules that together hold all bytes leave none, until a caller disconnects', async () => {
    await start({ signedBodyBytes: 16 * KIB, capsuleSignedBytes: 16 * KIB, allSignedBytes: 32 * KIB });
    const calls = (['ledger', 'desk'] as const).map((pod) => post(pod, 'signed', 'x', 16 * KIB));
    await open('input', 2);
    await refusedFor(post('shop', 'signed', 'x'), 503, 'unavailable');
    expect(await refusals()).toEqual({ 'signedBytes full': 1 });
    calls[0]?.socket.destroy();
    await open('input', 1);
    const next = post('shop', 'signed', 'x');
    await held(1);
    letGo();
    await answered(next, 200);
  });
});
