import { X509Certificate } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AUTHORITY } from './authority.ts';
import { makeAuthority } from './certificates.ts';
import type { Cluster, Stored } from './cluster.ts';
import { nextStep } from './exchange.ts';
import type { Run } from './options.ts';
import { keepCertificates } from './renew.ts';

const MINUTE_MS = 60_000;
const STEP = 45;
const BEGUN = Date.parse('2026-11-25T00:00:00Z');
const CERTIFICATES: NonNullable<Run['certificates']> = {
  services: {
    postgres: { place: 'services', names: ['postgres'] },
    console: { place: 'system', names: ['localhost'] },
  },
  days: 90,
  authorityDays: 3650,
  authorityStepMinutes: STEP,
};

class Killed extends Error {}

/** Objects in memory; `calls` more requests are answered before the caller is killed. */
function memory() {
  const objects = new Map<string, Stored>();
  let version = 0;
  const place = (...name: readonly string[]) => name.join('/');
  const clusterFor = (calls: number): Cluster => {
    let left = calls;
    const call = () => {
      left -= 1;
      if (left < 0) throw new Killed();
    };
    const merged = (one: Readonly<Record<string, string>>, more: object = {}) =>
      Object.fromEntries(Object.entries({ ...one, ...more }).filter(([, value]) => value !== null));
    const put = (
      name: string,
      stored: Partial<Stored>,
      { data, annotations }: { data?: object; annotations?: object },
    ) => {
      version += 1;
      objects.set(name, {
        data: merged(stored.data ?? {}, data),
        annotations: merged(stored.annotations ?? {}, annotations),
        resourceVersion: String(version),
      });
    };
    return {
      read: async (...name) => {
        call();
        return objects.get(place(...name));
      },
      create: async (kind, namespace, name, wish) => {
        call();
        put(place(kind, namespace, name), {}, wish);
      },
      change: async (kind, namespace, name, stored, wish) => {
        call();
        const before = objects.get(place(kind, namespace, name));
        if (before?.resourceVersion !== stored.resourceVersion) throw new Error('409');
        put(place(kind, namespace, name), before, wish);
      },
    };
  };
  const get = (...name: readonly string[]) => objects.get(place(...name));
  return {
    clusterFor,
    get,
    annotate: (value: string) => {
      const stored = get('Secret', 'services', AUTHORITY);
      if (stored === undefined) throw new Error('no authority');
      const annotations = { ...stored.annotations, 'platform.space/exchange': value };
      version += 1;
      objects.set(place('Secret', 'services', AUTHORITY), {
        ...stored,
        annotations,
        resourceVersion: String(version),
      });
    },
  };
}

function space() {
  const { clusterFor, get, annotate } = memory();
  const told: string[] = [];
  const keep = async (minutes: number, calls = Number.POSITIVE_INFINITY) => {
    const run: Run = {
      ...{
        space: 'home',
        releaseNamespace: 'home',
        systemNamespace: 'system',
        servicesNamespace: 'services',
      },
      ...{ objectStore: true, byok: false, console: false, backup: false, given: [], volumes: [], tls: true },
      mounted: { secrets: [], configMaps: [] },
      cluster: clusterFor(calls),
      now: new Date(BEGUN + minutes * MINUTE_MS),
      tell: (did, what, why = '') => told.push([did, what, why].join(' ').trim()),
    };
    await keepCertificates(run, CERTIFICATES).catch((error: unknown) => {
      if (!(error instanceof Killed)) throw error;
    });
  };
  return {
    told,
    keep,
    annotate,
    trusted: () =>
      ['services', 'system'].map((namespace) => get('ConfigMap', namespace, AUTHORITY)?.data['ca.crt'] ?? ''),
    shown: () => [
      get('Secret', 'services', 'postgres-tls')?.data['tls.crt'] ?? '',
      get('Secret', 'system', 'console-tls')?.data['tls.crt'] ?? '',
    ],
    signing: () => get('Secret', 'services', AUTHORITY)?.data['tls.crt'],
  };
}

const pems = (bundle: string) => bundle.split(/(?<=-----END CERTIFICATE-----\n)/).filter((one) => one !== '');

const known = new Map<string, boolean>();
function verifies(certificate: string, bundle: string): boolean {
  const key = certificate + bundle;
  const found =
    known.get(key) ??
    pems(bundle).some((one) => new X509Certificate(certificate).verify(new X509Certificate(one).publicKey));
  known.set(key, found);
  return found;
}

describe('the next step', () => {
  const now = new Date(BEGUN);
  const later = new Date(BEGUN + MINUTE_MS);

  it('is none if the stored authority cannot sign', () => {
    expect(nextStep({ current: { certificate: '', key: '' } }, now, 0)).toEqual({ kind: 'refuse' });
  });

  it('creates the next authority again if the stored one cannot sign', async () => {
    const current = await makeAuthority('home', 90, now);
    const stored = { current, next: { certificate: '' }, published: now.toISOString() };
    expect(nextStep(stored, later, 0)).toMatchObject({ kind: 'announce', authority: current });
  });

  it('waits for an authority that was never published', async () => {
    const [current, next] = await Promise.all([
      makeAuthority('home', 90, now),
      makeAuthority('home', 90, now),
    ]);
    expect(nextStep({ current, next }, later, 0)).toEqual({ kind: 'keep', authority: current });
  });

  it('is not requested by a request that was already served, also after it was removed', async () => {
    const current = await makeAuthority('home', 90, now);
    for (const asked of [undefined, 'once'])
      expect(nextStep({ current, ...(asked && { asked }), served: 'once' }, now, 0).kind).toBe('keep');
    expect(nextStep({ current, asked: 'twice', served: 'once' }, now, 0).kind).toBe('announce');
  });

  it('begins by itself just after two thirds of the lifetime', async () => {
    const current = await makeAuthority('home', 90, now);
    const { validFromDate, validToDate } = new X509Certificate(current.certificate);
    const [from, to] = [validFromDate.getTime(), validToDate.getTime()];
    const twoThirds = from + ((to - from) * 2) / 3;
    expect(nextStep({ current }, new Date(twoThirds), 0).kind).toBe('keep');
    expect(nextStep({ current }, new Date(twoThirds + 1000), 0).kind).toBe('announce');
  });
});

describe('the exchange of an authority', () => {
  it('takes three steps, each after the previous one has reached all programs', async () => {
    const { told, keep, annotate, trusted, signing } = space();
    await keep(0);
    const first = signing();
    annotate('2026-11-25');
    told.length = 0;
    await keep(1);
    expect(told).toEqual(['updated services/space-ca another is trusted beside it, since it was asked for']);
    expect([pems(trusted()[0]!).length, signing()]).toEqual([2, first]);
    await keep(1 + STEP - 1);
    expect([told.length, signing()]).toEqual([1, first]);
    await keep(1 + STEP);
    expect(told.slice(1)).toEqual([
      'updated services/space-ca the next one signs from now on',
      'renewed services/postgres-tls it is of another authority',
      'renewed system/console-tls it is of another authority',
    ]);
    expect([signing() === first, trusted()[0]!.includes(first!)]).toEqual([false, true]);
    await keep(2 * STEP);
    expect(told).toHaveLength(4);
    await keep(1 + 2 * STEP);
    expect(told.slice(4)).toEqual(['updated services/space-ca the former one is trusted no more']);
    expect(trusted()).toEqual([signing(), signing()]);
    await keep(10 * STEP);
    expect(told).toHaveLength(5);
  });

  it('begins by itself when two thirds of the lifetime are over', async () => {
    const { told, keep } = space();
    await keep(0);
    told.length = 0;
    const days = (count: number) => count * 24 * 60;
    await keep(days(2432));
    expect(told.filter((line) => line.includes('space-ca'))).toEqual([]);
    await keep(days(2435));
    expect(told.filter((line) => line.includes('space-ca'))).toEqual([
      'updated services/space-ca another is trusted beside it, since it expires soon',
    ]);
  });

  it('never presents a certificate to a program that does not trust it, whenever runs are killed or files are late', async () => {
    const runs = fc.array(
      fc.record({
        after: fc.integer({ min: 0, max: 2 * STEP }),
        calls: fc.oneof(fc.constant(Number.POSITIVE_INFINITY), fc.integer({ min: 0, max: 12 })),
        asks: fc.boolean(),
      }),
      { minLength: 8, maxLength: 18 },
    );
    let exchanged = 0;
    await fc.assert(
      fc.asyncProperty(runs, async (all) => {
        const { keep, annotate, trusted, shown, signing } = space();
        await keep(0);
        const history = [{ at: 0, trusted: trusted(), shown: shown() }];
        const first = signing();
        let now = 0;
        for (const [number, { after, calls, asks }] of all.entries()) {
          now += after;
          if (asks) annotate(String(number));
          await keep(now, calls);
          history.push({ at: now, trusted: trusted(), shown: shown() });
        }
        if (signing() !== first) exchanged += 1;
        // Files may be as late as a step: what was there until then is what somebody has.
        for (const [i, { at }] of history.entries()) {
          const late = history.filter((_, j) => j <= i && (history[j + 1]?.at ?? at) > at - STEP);
          for (const certificate of new Set(late.flatMap((one) => one.shown)))
            for (const bundle of new Set(late.flatMap((one) => one.trusted)))
              if (!verifies(certificate, bundle))
                throw new Error(`somebody cannot verify a service after ${at} minutes`);
        }
      }),
      { numRuns: 20 },
    );
    expect(exchanged).toBeGreaterThan(3);
  });
});
