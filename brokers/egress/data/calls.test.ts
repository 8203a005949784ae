import { IndexedSet } from '@space/broker-kit';
import { type Ending, MOST_CALLS } from '@space/contracts/egress';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Tenant } from '../policies/tenant.ts';
import { Calls } from './calls.ts';

const tenant = (app: string): Tenant => ({
  capsule: 'home',
  app,
  uid: 'uid-1',
  generation: 1,
  revision: '',
  principals: [],
  addresses: new Set(),
  hosts: new Set(),
  inputs: new Map(),
  connections: new IndexedSet(),
});
const ledger = tenant('ledger');
const HOST = { host: 'api.bank.org' };
const START = Date.UTC(2026, 10, 23, 9);
let now: number;
let calls: Calls;
const later = () => {
  now += 1_000;
};
const refused = (refusedHost: string | undefined, code: Ending = 'host_denied') =>
  calls.count({ tenant: ledger, refusedHost, code });

beforeEach(() => {
  now = START;
  calls = new Calls(() => now);
});

describe('the calls of an Assistant', () => {
  it('are counted by host, stored input and ending, with the time of the last', () => {
    calls.count({ tenant: ledger, host: 'rates.ecb.org', code: 'ok' });
    later();
    calls.count({ tenant: ledger, host: 'rates.ecb.org', code: 'ok' });
    calls.count({ tenant: ledger, input: { key: 'bank', host: 'api.bank.org' }, code: 'route_denied' });
    refused('tracking.example');
    refused(undefined);
    const last_at = '2026-11-23T09:00:01.000Z';
    expect(calls.of(ledger)).toEqual({
      calls: [
        { host: 'rates.ecb.org', ending: 'ok', count: 2, last_at },
        { host: 'api.bank.org', input: 'bank', ending: 'route_denied', count: 1, last_at },
        { host: 'tracking.example', ending: 'host_denied', count: 1, last_at },
        { ending: 'host_denied', count: 1, last_at },
      ],
      forgotten: 0,
      since: '2026-11-23T09:00:00.000Z',
    });
  });

  it('are not counted for another Assistant, and for none if none was recognised', () => {
    refused('tracking.example');
    calls.count({ code: 'forbidden' });
    expect(calls.of(tenant('other')).calls).toEqual([]);
    expect(calls.of(undefined).calls).toEqual([]);
    expect(calls.of(ledger).calls).toHaveLength(1);
  });

  it('that were refused are stored up to a limit: the oldest is removed, and counted as forgotten', () => {
    refused('first.example');
    refused('first.example');
    for (let index = 1; index < MOST_CALLS.others; index += 1) {
      later();
      refused(`host-${index}.example`);
    }
    later();
    refused('one-more.example');
    const { calls: rows, forgotten } = calls.of(ledger);
    expect(rows).toHaveLength(MOST_CALLS.others);
    expect(rows.map(({ host }) => host)).not.toContain('first.example');
    expect(rows.map(({ host }) => host)).toContain('one-more.example');
    expect(forgotten).toBe(2);
  });

  it('in progress are reported, too, since a tunnel that never ends would not be counted', () => {
    const on = (called: { host: string; key?: string } | undefined) =>
      ledger.connections.add({
        index: -1,
        permitted: () => true,
        end: () => undefined,
        called: () => called,
      });
    // The last has not been judged yet.
    for (const called of [HOST, HOST, { ...HOST, key: 'bank' }, undefined]) on(called);
    const last_at = '2026-11-23T09:00:00.000Z';
    expect(calls.of(ledger).calls).toEqual([
      { ...HOST, ending: 'open', count: 2, last_at },
      { ...HOST, input: 'bank', ending: 'open', count: 1, last_at },
    ]);
    for (let index = 0; index < 200; index += 1) on({ host: `host-${index}.example` });
    expect(calls.of(ledger).calls).toHaveLength(MOST_CALLS.open);
    for (const connection of ledger.connections.snapshot()) ledger.connections.delete(connection);
  });

  it('to hosts of the policy stay, however many others an Assistant requests', () => {
    calls.count({ tenant: ledger, host: 'rates.ecb.org', code: 'ok' });
    for (let index = 0; index < 1_000; index += 1) refused(`host-${index}.example`);
    expect(calls.of(ledger).calls[0]).toMatchObject({ host: 'rates.ecb.org', count: 1 });
  });
});
