import { expect, it } from 'vitest';
import { manifestChanges } from './manifest-changes.ts';

const old = {
  platform: { id: 'a', version: '1.0.0', summary: 'Before' },
  network: { allowed_hosts: ['a.org', 'b.org'] },
  stored_inputs: { bank: { host: 'a.org', routes: [{ method: 'GET', path: '/v1' }] } },
};

it('names what is added, removed and changed, each with its pointer', () => {
  const next = {
    platform: { id: 'a', version: '1.1.0', description: 'More' },
    network: { allowed_hosts: ['b.org', 'c.org'] },
    stored_inputs: { bank: { host: 'a.org', routes: [{ path: '/v2', method: 'GET' }] } },
  };
  expect(manifestChanges(old, next)).toEqual([
    { pointer: '/platform/version', before: '1.0.0', after: '1.1.0' },
    { pointer: '/platform/summary', before: 'Before', after: undefined },
    { pointer: '/platform/description', before: undefined, after: 'More' },
    { pointer: '/network/allowed_hosts', before: undefined, after: 'c.org' },
    { pointer: '/network/allowed_hosts', before: 'a.org', after: undefined },
    { pointer: '/stored_inputs/bank/routes', before: undefined, after: '{"path":"/v2","method":"GET"}' },
    { pointer: '/stored_inputs/bank/routes', before: '{"method":"GET","path":"/v1"}', after: undefined },
  ]);
});

it('names nothing if only the order differs', () => {
  const same = {
    network: { allowed_hosts: ['b.org', 'a.org'] },
    stored_inputs: { bank: { routes: [{ path: '/v1', method: 'GET' }], host: 'a.org' } },
    platform: { version: '1.0.0', id: 'a', summary: 'Before' },
  };
  expect(manifestChanges(old, same)).toEqual([]);
});

it('names a part as a whole if only one manifest has it', () => {
  const { stored_inputs: _, ...next } = old;
  expect(manifestChanges(old, next)).toEqual([
    { pointer: '/stored_inputs', before: JSON.stringify(old.stored_inputs), after: undefined },
  ]);
  expect(manifestChanges({ 'a/b~': 1 }, { 'a/b~': 2 })).toEqual([
    { pointer: '/a~1b~0', before: '1', after: '2' },
  ]);
});
