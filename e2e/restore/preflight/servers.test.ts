import { expect, it } from 'vitest';
import type { KubeObject } from '../../space/kube-object.ts';
import type { State } from '../state.ts';
import { refuseMissingServers } from './servers.ts';

const object = (kind: string, name: string, namespace: string, more = {}): KubeObject => ({
  ...{ apiVersion: 'v1', kind, metadata: { name, namespace } },
  ...more,
});
/** A Capsule, with the URL of a database of its own. */
const capsuleOn = (host: string, name: string) => [
  object('Capsule', name, 'home'),
  object('Secret', `capsule-${name}-database`, 'home-system', {
    data: { 'database-url': btoa(`postgresql://spc_1:x@${host}:5432/spc_1`) },
  }),
];
const state: State = {
  space: 'home',
  namespaces: { release: 'home', system: 'home-system', services: 'home-services' },
  taken: '2026-11-21T10:30:00.000Z',
  databaseHosts: { main: 'postgres', b: 'pg-b', c: 'pg-c' },
  objects: [
    ...capsuleOn('postgres', 'household'),
    ...capsuleOn('pg-b', 'attic'),
    ...capsuleOn('pg-b', 'cabin'),
    object('Secret', 'capsule-gone-database', 'home-system', { data: { 'database-url': btoa('none') } }),
    object('Capsule', 'new', 'home'),
  ],
};
const valuesWith = (...servers: { name: string; host: string }[]) => [
  object('ConfigMap', 'db-servers', 'home-services', {
    data: { 'servers.json': JSON.stringify({ servers }) },
  }),
];

it('values that lack a server which Capsules were on are refused, with the names of both', () => {
  const refused = /lack PostgreSQL servers .*: b \(Capsules attic, cabin\)\. .* Nothing was changed$/;
  expect(() => refuseMissingServers(state, [])).toThrow(refused);
  expect(() => refuseMissingServers(state, valuesWith({ name: 'c', host: 'pg-b' }))).toThrow(refused);
});

it('a server may have another host, and one without Capsules may be missing', () => {
  refuseMissingServers(state, valuesWith({ name: 'b', host: 'elsewhere' }));
  const { databaseHosts, ...older } = state;
  refuseMissingServers(older, []);
});
