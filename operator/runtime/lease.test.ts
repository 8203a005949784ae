import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type ApiServer, startApiServer } from '../../testing/api-server.ts';
import { eventually } from '../../testing/eventually.ts';
import { fakeClock } from '../testing/fake-clock.ts';
import { type FaultProxy, openFaultProxy } from '../testing/fault-proxy.ts';
import type { ApiClient } from './client.ts';
import { systemClock } from './clock.ts';
import { ApiError, isConflict } from './errors.ts';
import { fencedClient, Lease, LeaseLostError, type LeaseOptions } from './lease.ts';
import { readLease, writeLease } from './lease-object.ts';

/** Less than an operator waits, so that a test need not. */
const TIMES = { durationMs: 2000, giveUpMs: 1200, renewMs: 200, lookMs: 100 };
/** Where one must keep it: a machine that stalls for ten seconds takes no lease away. */
const PATIENT = { durationMs: 18_000, giveUpMs: 15_000 };
const NEVER = new AbortController().signal;

let server: ApiServer;
let name: string;
let leases = 0;

beforeAll(async () => {
  server = await startApiServer();
});
afterAll(() => server?.stop());
beforeEach(() => {
  leases += 1;
  name = `lease-${leases}`;
});

const contender = (identity: string, client: ApiClient, options: Partial<LeaseOptions> = {}) =>
  new Lease({ client, clock: systemClock, namespace: 'default', name, identity, ...TIMES, ...options });

const path = () => `/apis/coordination.k8s.io/v1/namespaces/default/leases/${name}`;
async function stored() {
  const { spec } = await server.client.call<{
    spec: { holderIdentity?: string; leaseTransitions?: number };
  }>({ method: 'GET', path: path() });
  return spec;
}

test('of many candidates one holds the Lease, and then each of the others in turn', async () => {
  const all = Array.from({ length: 5 }, (_, i) => contender(`c${i}`, server.client, PATIENT));
  const holders = () => all.filter((lease) => lease.remainingMs > 0).length;
  const seen: number[] = [];
  await Promise.all(
    all.map(async (lease) => {
      await lease.acquire(NEVER);
      // While it is held the others keep asking a server that answers them.
      for (let looks = 0; looks < 5; looks += 1) {
        seen.push(holders());
        expect((await stored()).holderIdentity).toBe(`c${all.indexOf(lease)}`);
        await new Promise((resolve) => systemClock.after(TIMES.lookMs, () => resolve(undefined)));
      }
      await lease.release();
      expect(() => lease.check()).toThrow(LeaseLostError);
    }),
  );
  expect(new Set(seen)).toEqual(new Set([1]));
  expect((await stored()).leaseTransitions).toBe(4);
});

test('of two that overwrite the same state one is refused, and the other holds the Lease', async () => {
  const ref = { client: server.client, namespace: 'default', name };
  await writeLease(ref, undefined, { holderIdentity: 'nobody' });
  const seen = await readLease(ref, NEVER);
  await writeLease(ref, seen, { holderIdentity: 'first' });
  await expect(writeLease(ref, seen, { holderIdentity: 'second' })).rejects.toSatisfy(isConflict);
  expect((await stored()).holderIdentity).toBe('first');
});

test('a Lease is created with its owner, and keeps its other fields when it is taken', async () => {
  const owner = { apiVersion: 'v1', kind: 'ServiceAccount', name: 'operator', uid: 'u' };
  for (const identity of ['first', 'second']) {
    const lease = contender(identity, server.client, { owner: () => owner });
    await lease.acquire(NEVER);
    await lease.release();
  }
  const { metadata } = await server.client.call<{ metadata: { ownerReferences?: object[] } }>({
    method: 'GET',
    path: path(),
  });
  expect(metadata.ownerReferences).toEqual([owner]);
});

test('a candidate does not take it from a holder that renews, and takes it at once when the holder releases it', async () => {
  const first = contender('first', server.client, PATIENT);
  const asked: string[] = [];
  const isGone = async (holder: string) => asked.push(holder) > 1;
  // It asks again about a holder that misses renewals, which here would be one on a machine that stalls.
  const second = contender('second', server.client, { ...PATIENT, renewMs: 10_000, isGone });
  await first.acquire(NEVER);
  const taken = second.acquire(NEVER);
  const { renewTime } = (await stored()) as { renewTime?: string };
  // Longer than it would live without renewals.
  await eventually(
    async () => {
      const now = (await stored()) as { renewTime?: string };
      return Date.parse(now.renewTime ?? '') - Date.parse(renewTime ?? '') > PATIENT.durationMs;
    },
    { what: 'many renewals' },
  );
  expect((await stored()).holderIdentity).toBe('first');
  expect(asked).toEqual(['first']);
  first.check();
  await first.release();
  await taken;
  second.check();
  await second.release();
});

test('a candidate that is told of a holder’s end takes the Lease when it is released, however rarely it looks otherwise', async () => {
  const first = contender('first', server.client, { durationMs: 1_000_000, renewMs: 1_000_000 });
  await first.acquire(NEVER);
  let looks = 0;
  const counting: ApiClient = {
    call(asked) {
      if (asked.method === 'GET') looks += 1;
      return server.client.call(asked);
    },
    lines: (asked) => server.client.lines(asked),
  };
  const often = { lookMs: 1_000_000, releaseLookMs: 50, releaseMs: 1_000_000 };
  const next = contender('next', counting, { ...PATIENT, ...often });
  const taken = next.acquire(NEVER);
  await eventually(async () => looks === 1, { what: 'the first look' });
  next.expectRelease();
  await eventually(async () => looks > 4, { what: 'more looks' });
  expect((await stored()).holderIdentity).toBe('first');
  await first.release();
  await taken;
  next.check();
  await next.release();
});

test('a candidate looks as rarely as before when a holder did not end after all', async () => {
  const clock = fakeClock();
  let looks = 0;
  const held = { holderIdentity: 'first', leaseDurationSeconds: 1_000_000 };
  const client = {
    call: async () => {
      looks += 1;
      return { metadata: { name, uid: 'u', resourceVersion: '1' }, spec: held };
    },
  } as unknown as ApiClient;
  const lease = new Lease({ client, clock, namespace: 'default', name, identity: 'next', lookMs: 1_000 });
  const end = new AbortController();
  const ended = lease.acquire(end.signal);
  const during = async (ms: number) => {
    const before = looks;
    for (let passed = 0; passed < ms; passed += 100) {
      clock.advance(100);
      await new Promise((resolve) => setImmediate(resolve));
    }
    return looks - before;
  };
  await during(100);
  expect(await during(10_000)).toBe(10);
  lease.expectRelease();
  expect(await during(10_000)).toBeGreaterThan(90);
  expect(await during(10_000)).toBeLessThan(12);
  end.abort();
  await ended;
});

test('a holder that is known to be gone is followed at once', async () => {
  // It does not expire, and a renewal between the look and the write of the next one would have that wait.
  const first = contender('first', server.client, { durationMs: 1_000_000, renewMs: 1_000_000 });
  await first.acquire(NEVER);
  const isGone = async () => true;
  const next = contender('next', server.client, { ...PATIENT, isGone, lookMs: 1_000_000 });
  await next.acquire(NEVER);
  next.check();
  await next.release();
  await first.release();
});

test('a candidate that waits in vain ends when it is told to', async () => {
  const first = contender('first', server.client);
  await first.acquire(NEVER);
  const quitting = new AbortController();
  const waiting = contender('second', server.client).acquire(quitting.signal);
  quitting.abort();
  await waiting;
  await first.release();
});

describe('a holder that is cut off', () => {
  let proxy: FaultProxy;
  beforeEach(async () => {
    proxy = await openFaultProxy(server);
    return () => proxy.close();
  });

  test.each<[string, Parameters<FaultProxy['fault']>[0]]>([
    ['by a line that stalls', () => ({ kind: 'stall' })],
    ['by a line that breaks', () => ({ kind: 'cut', afterBytes: 0 })],
    ['by a server that has too much to do', () => ({ kind: 'answer', status: 429, retryAfter: 1 })],
    ['by a server that fails', () => ({ kind: 'answer', status: 500 })],
    ['by answers that break off', () => ({ kind: 'cut', afterBytes: 40 })],
  ])('%s gives up before another takes over, and writes no more', async (_, fault) => {
    const first = contender('first', server.clientAt(proxy.port, 'http'));
    await first.acquire(NEVER);
    let lostAt: number | undefined;
    first.lost.addEventListener('abort', () => {
      lostAt = performance.now();
    });
    proxy.fault(fault);
    const second = contender('second', server.client);
    await second.acquire(NEVER);
    const takenAt = performance.now();
    expect(lostAt).toBeLessThan(takenAt);
    const fenced = fencedClient(server.client, first);
    await expect(fenced.call({ method: 'DELETE', path: path() })).rejects.toThrow(LeaseLostError);
    expect((await stored()).holderIdentity).toBe('second');
    await second.release();
  });

  test('for a moment keeps the Lease, also when the answer to a renewal was lost', async () => {
    const first = contender('first', server.clientAt(proxy.port, 'http'), PATIENT);
    await first.acquire(NEVER);
    let faults = 0;
    proxy.fault(({ method }) => (method === 'PUT' && faults++ < 2 ? { kind: 'lost' } : undefined));
    await eventually(() => faults >= 4, { what: 'it renews again' });
    first.check();
    expect((await stored()).leaseTransitions).toBe(0);
    await first.release();
  });

  test('keeps it by renewals that take effect, although no answer says so', async () => {
    const first = contender('first', server.clientAt(proxy.port, 'http'), PATIENT);
    await first.acquire(NEVER);
    const since = performance.now();
    let renewals = 0;
    // One takes effect unheard, and the next is refused for it.
    proxy.fault(({ method }) => (method === 'PUT' && renewals++ % 2 === 0 ? { kind: 'lost' } : undefined));
    await eventually(() => first.lost.aborted || performance.now() - since > 1.2 * PATIENT.giveUpMs, {
      what: 'it was held for long',
    });
    first.check();
    proxy.fault(() => undefined);
    await first.release();
  });

  test('takes the Lease that it got by a write whose answer was lost', async () => {
    let lost = false;
    proxy.fault(({ method }) => {
      if (method !== 'POST' || lost) return undefined;
      lost = true;
      return { kind: 'lost' };
    });
    const first = contender('first', server.clientAt(proxy.port, 'http'));
    await first.acquire(NEVER);
    expect(lost).toBe(true);
    expect(await stored()).toMatchObject({ holderIdentity: 'first', leaseTransitions: 0 });
    await first.release();
  });
});

test('a candidate that starts when the holder is known to be dead does not wait for the end of the Lease', async () => {
  const body = {
    metadata: { name },
    spec: { holderIdentity: 'dead', leaseDurationSeconds: 3600, leaseTransitions: 4 },
  };
  await server.client.call({ method: 'POST', path: path().replace(`/${name}`, ''), body });
  const asked: string[] = [];
  const isGone = async (holder: string) => asked.push(holder) > 2;
  const lease = contender('next', server.client, { ...PATIENT, isGone });
  await lease.acquire(NEVER);
  expect(asked).toEqual(['dead', 'dead', 'dead']);
  expect(await stored()).toMatchObject({ holderIdentity: 'next', leaseTransitions: 5 });
  await lease.release();
  expect((await stored()).holderIdentity ?? '').toBe('');
});

test('a holder whose process was stopped writes nothing when it continues', async () => {
  const target = '/api/v1/namespaces/default/configmaps';
  await server.client.call({ method: 'POST', path: target, body: { metadata: { name } } });
  const { kubeconfig, client } = server;
  const lease = { namespace: 'default', name, identity: 'frozen', ...TIMES, ...PATIENT };
  const child = spawn(process.execPath, [join(import.meta.dirname, '../testing/holder-child.ts')], {
    env: { ...process.env, HOLDER: JSON.stringify({ kubeconfig, lease, path: `${target}/${name}` }) },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  const tooSoon = ended.then(([code]) => {
    throw new Error(`it ended with ${code}`);
  });
  const says = () => Promise.race([once(child.stdout, 'data'), tooSoon]);
  try {
    await says();
    child.stdin.write('\n');
    await says();
    // Between two writes. One that is past its check already is for the admission policy to refuse.
    child.kill('SIGSTOP');
    const second = contender('second', client, PATIENT);
    await second.acquire(NEVER);
    const claim = {
      method: 'PATCH',
      path: `${target}/${name}`,
      body: { data: { writer: 'second' } },
    } as const;
    const { metadata } = await fencedClient(client, second).call<{ metadata: { resourceVersion: string } }>({
      ...claim,
      contentType: 'application/merge-patch+json',
    });
    child.stdin.write('\n');
    child.kill('SIGCONT');
    expect(await ended).toEqual([3, null]);
    const after = await client.call<{ metadata: object }>({ method: 'GET', path: `${target}/${name}` });
    expect(after.metadata).toMatchObject({ resourceVersion: metadata.resourceVersion });
    await second.release();
  } finally {
    child.kill('SIGKILL');
  }
});

test('the clock ends the Lease before any timer does', async () => {
  const clock = fakeClock();
  const client: ApiClient = {
    async call<T>({ method, body }: { method: string; body?: unknown }) {
      if (method === 'GET') throw new ApiError({ status: 404, reason: 'NotFound', message: '' });
      return body as T;
    },
    lines: () => Promise.reject(new Error('nobody watches')),
  };
  // A clock that jumps: no timer has rung yet.
  let jump = 0;
  const jumping = { ...clock, now: () => clock.now() + jump };
  const lease = contender('first', client, { clock: jumping });
  await lease.acquire(NEVER);
  lease.check();
  jump = TIMES.giveUpMs;
  expect(() => lease.check()).toThrow(LeaseLostError);
  expect(lease.lost.aborted).toBe(true);
});

test('the Lease counts from when its write was sent, however late the answer comes', async () => {
  const clock = fakeClock();
  const answerMs = 300;
  let renewals = 0;
  const late: ApiClient = {
    ...server.client,
    async call<T>(asked: Parameters<ApiClient['call']>[0]): Promise<T> {
      const answer = await server.client.call<T>(asked);
      if (asked.method !== 'GET') clock.advance(answerMs);
      if (asked.method === 'PUT') renewals += 1;
      return answer;
    },
  };
  const lease = contender('first', late, { clock });
  await lease.acquire(NEVER);
  expect(lease.remainingMs).toBe(TIMES.giveUpMs - answerMs);
  clock.advance(TIMES.renewMs);
  await eventually(() => renewals === 1, { what: 'it renews' });
  expect(lease.remainingMs).toBe(TIMES.giveUpMs - answerMs);
  await lease.release();
});

describe('a fenced client', () => {
  const held = { lost: NEVER, remainingMs: 60_000 };
  const gone = () => {
    throw new LeaseLostError('the lease is not held');
  };
  const exists = async () =>
    server.client.call({ method: 'GET', path: path() }).then(
      () => true,
      () => false,
    );
  beforeEach(async () => {
    await writeLease({ client: server.client, namespace: 'default', name }, undefined, {});
  });

  test('does not begin a write without the Lease', async () => {
    const begun: string[] = [];
    // It is not read again before the write is sent.
    const careless: ApiClient = {
      ...server.client,
      call({ beforeSend: _, ...asked }) {
        begun.push(asked.method);
        return server.client.call(asked);
      },
    };
    const fenced = fencedClient(careless, { ...held, check: gone });
    await expect(fenced.call({ method: 'DELETE', path: path() })).rejects.toThrow(LeaseLostError);
    expect([begun, await exists()]).toEqual([[], true]);
    await fenced.call({ method: 'GET', path: path() });
    expect(begun).toEqual(['GET']);
  });

  test('sends no write if the Lease was lost after the write began', async () => {
    let checks = 0;
    const check = () => {
      checks += 1;
      if (checks > 1) gone();
    };
    const fenced = fencedClient(server.client, { ...held, check });
    await expect(fenced.call({ method: 'DELETE', path: path() })).rejects.toThrow(LeaseLostError);
    expect([checks, await exists()]).toEqual([2, true]);
  });
});
