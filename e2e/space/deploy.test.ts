/** Who may put what into which Capsule, according to a real API server with the chart's policies. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { manifest } from '../../operator/testing/manifest.ts';
import { eventually } from '../../testing/eventually.ts';
import {
  asOperator,
  type Caller,
  holdLease,
  type PolicyServer,
  startPolicyServer,
} from './testing/policy-server.ts';

const ASSISTANTS = '/apis/platform.space/v1/namespaces/home/assistants';
const GROUP = 'platform.space';

let policyServer: PolicyServer;
let deployer: Caller;
let writer: Caller;
let reader: Caller;

const input = (host = 'api.bank.org') => ({
  kind: 'password',
  label: 'Key',
  description: 'The key of the bank.',
  help_url: 'https://bank.org/keys',
  host,
  routes: [{ method: 'GET', path: '/accounts' }],
  header: 'Authorization',
});

/** An Assistant whose stored inputs come from these Secrets. */
function assistant(capsule: string, secrets: readonly string[] = [], changes: object = {}) {
  const keys = secrets.map((secret, i) => [`input-${i}`, secret] as const);
  const bound = keys.map(([key, name]) => [key, { secretKeyRef: { name, key: 'value' } }]);
  return {
    apiVersion: 'platform.space/v1',
    kind: 'Assistant',
    metadata: { name: 'ledger' },
    spec: {
      capsule,
      image: 'registry.test/ledger:1',
      manifest: manifest('ledger', {
        stored_inputs: Object.fromEntries(keys.map(([key]) => [key, input()])),
      }),
      storedInputs: Object.fromEntries(bound),
      ...changes,
    },
  };
}

const assistantRules = {
  apiGroups: [GROUP],
  resources: ['assistants'],
  verbs: ['create', 'patch', 'get', 'delete', 'deletecollection'],
};
const deploy = (capsule: string) => ({
  apiGroups: [GROUP],
  resources: ['capsules'],
  resourceNames: [capsule],
  verbs: ['deploy'],
});
const get = (...secrets: string[]) => ({
  apiGroups: [''],
  resources: ['secrets'],
  resourceNames: secrets,
  verbs: ['get'],
});
const MINE = Array.from({ length: 8 }, (_, i) => `mine-${i}`);

beforeAll(async () => {
  policyServer = await startPolicyServer();
  deployer = await policyServer.caller('deployer', [assistantRules, deploy('household')]);
  reader = await policyServer.caller('reader', [assistantRules, deploy('household'), get(...MINE, 'bank')]);
  writer = await policyServer.caller('writer', [assistantRules]);
  // Policies are in force, and rights are known, a moment after they were created; a refusal by RBAC does not come
  // from the policy.
  const holds = async () => {
    const other = { ...assistant('household', ['bank']), metadata: { name: 'other' } };
    expect(await writer('POST', ASSISTANTS, other)).toEqual(refused('may not deploy into'));
    expect(await deployer('POST', ASSISTANTS, other)).toEqual(refused('bank'));
    expect(await reader('POST', ASSISTANTS, other)).toEqual(taken(201));
    return true;
  };
  await eventually(holds, { what: 'the policy to hold' });
  await policyServer.create(ASSISTANTS, assistant('household', ['bank']));
  await policyServer.create(ASSISTANTS, { ...assistant('cabin'), metadata: { name: 'neighbour' } });
}, 900_000);

afterAll(() => policyServer?.stop());

const refused = (says: string) => ({ status: 403, text: expect.stringContaining(says) });
const taken = (status: number) => ({ status, text: expect.any(String) });

describe('into a Capsule', () => {
  it('a caller with the verb deploy on it may deploy', async () => {
    const other = { ...assistant('household'), metadata: { name: 'other' } };
    expect(await deployer('POST', ASSISTANTS, other)).toEqual(taken(201));
  });

  it('nobody else may, whatever rights on Assistants they have', async () => {
    const says = 'may not deploy into the Capsule household';
    expect(await writer('POST', ASSISTANTS, assistant('household'))).toEqual(refused(says));
    expect(await writer('PATCH', `${ASSISTANTS}/ledger`, { spec: { image: 'evil:1' } })).toEqual(
      refused(says),
    );
    expect(await writer('PATCH', `${ASSISTANTS}/ledger`, { spec: { suspend: true } })).toEqual(refused(says));
  });

  it('a right to one Capsule is none to another', async () => {
    expect(await deployer('POST', ASSISTANTS, assistant('cabin'))).toEqual(
      refused('capsules.platform.space/cabin in the namespace home'),
    );
  });

  it('in another namespace only the roles there decide', async () => {
    const elsewhere = ASSISTANTS.replace('/home/', '/default/');
    const writes = await policyServer.caller('elsewhere', [assistantRules], ['default']);
    await eventually(
      async () => (await writes('POST', elsewhere, assistant('household', ['bank']))).status === 201,
      { what: 'its Role is known, and nothing else is asked' },
    );
  });

  it('a change outside of the spec needs no such right', async () => {
    const labels = { metadata: { labels: { team: 'books' } } };
    expect(await writer('PATCH', `${ASSISTANTS}/ledger`, labels)).toEqual(taken(200));
  });
});

describe('a stored input', () => {
  it('may name a Secret that its author may read', async () => {
    const other = { ...assistant('household', MINE), metadata: { name: 'other' } };
    expect(await reader('POST', ASSISTANTS, other)).toEqual(taken(201));
  });

  it.each(MINE.map((_, i) => i))('may not name another, in any position (%i)', async (place) => {
    // The policy asks about names in their order: this tests one that comes after each of them, and one before all.
    for (const foreign of ['a-principal', ...MINE.map((one) => `${one}x`)]) {
      const names = MINE.with(place, foreign);
      const other = { ...assistant('household', names), metadata: { name: 'other' } };
      expect(await reader('POST', ASSISTANTS, other)).toEqual(refused(`may not read the Secret ${foreign}`));
    }
  });

  it('cannot be moved to another host, route or Secret by a caller who may not read it', async () => {
    const path = `${ASSISTANTS}/ledger`;
    const moved = {
      spec: { manifest: { stored_inputs: { 'input-0': { host: 'evil.org' } } } },
    };
    const swapped = { spec: { storedInputs: { 'input-0': { secretKeyRef: { name: 'safe' } } } } };
    expect(await deployer('PATCH', path, moved)).toEqual(refused('may not read the Secret bank'));
    expect(await deployer('PATCH', path, swapped)).toEqual(refused('may not read the Secret safe'));
    expect(await reader('PATCH', path, moved)).toEqual(taken(200));
  });

  it('does not prevent anybody from deploying the next image with the same inputs', async () => {
    const next = { spec: { image: 'registry.test/ledger:2' } };
    expect(await deployer('PATCH', `${ASSISTANTS}/ledger`, next)).toEqual(taken(200));
  });
});

describe('out of a Capsule', () => {
  const neighbour = `${ASSISTANTS}/neighbour`;
  let operator: Caller;
  beforeAll(async () => {
    operator = await asOperator(policyServer);
    await holdLease(policyServer, 'operator');
  });

  it('a caller who may deploy into it may delete, whether the Capsule exists or not', async () => {
    expect(await deployer('DELETE', `${ASSISTANTS}/ledger`)).toEqual(taken(200));
  });

  it('nobody else may delete, one by one or all at once', async () => {
    const says =
      'may not delete from the Capsule cabin. You need the verb deploy on capsules.platform.space/cabin';
    expect(await deployer('DELETE', neighbour)).toEqual(refused(says));
    expect(await deployer('DELETE', ASSISTANTS)).toEqual(refused(says));
    expect(await writer('DELETE', `${ASSISTANTS}/ledger`)).toEqual(
      refused('may not delete from the Capsule'),
    );
  });

  it('nobody else has the cluster delete, by an owner that goes', async () => {
    const owner = { apiVersion: 'v1', kind: 'ConfigMap', name: 'gone', uid: 'u' };
    const owned = { metadata: { ownerReferences: [owner] } };
    expect(await deployer('PATCH', neighbour, owned)).toEqual(
      refused('may not deploy into the Capsule cabin'),
    );
    expect(await deployer('PATCH', `${ASSISTANTS}/ledger`, owned)).toEqual(taken(200));
    // The garbage collector looks for an owner by all fields of the reference.
    const metadata = { name: 'owned', ownerReferences: [owner] };
    await policyServer.create(ASSISTANTS, { ...assistant('cabin'), metadata });
    for (const other of [{ name: 'other' }, { kind: 'Secret' }, { apiVersion: 'v2' }, { uid: 'other' }]) {
      const instead = { metadata: { ownerReferences: [{ ...owner, ...other }] } };
      expect([other, await deployer('PATCH', `${ASSISTANTS}/owned`, instead)]).toEqual([
        other,
        refused('may not deploy into the Capsule cabin'),
      ]);
    }
    const plain = { metadata: { labels: { a: 'b' }, ownerReferences: [owner] } };
    expect(await deployer('PATCH', `${ASSISTANTS}/owned`, plain)).toEqual(taken(200));
    const none = { metadata: { ownerReferences: null } };
    expect(await deployer('PATCH', `${ASSISTANTS}/owned`, none)).toEqual(taken(200));
  });

  it('nobody else keeps what is deleted there, by a finalizer that nobody takes off', async () => {
    const kept = { metadata: { finalizers: ['test.space/stays'] } };
    for (const [ask, path, capsule] of [
      [deployer, neighbour, 'cabin'],
      [writer, `${ASSISTANTS}/ledger`, 'household'],
    ] as const)
      expect(await ask('PATCH', path, kept)).toEqual(refused(`may not deploy into the Capsule ${capsule}`));
    expect(await deployer('PATCH', `${ASSISTANTS}/ledger`, kept)).toEqual(taken(200));
    const off = { metadata: { finalizers: null } };
    expect(await writer('PATCH', `${ASSISTANTS}/ledger`, off)).toEqual(taken(200));
  });

  it('the operator adds its finalizer', async () => {
    const finalizers = { metadata: { finalizers: ['platform.space/assistant'] } };
    await eventually(async () => (await operator('PATCH', neighbour, finalizers)).status === 200, {
      what: 'the operator may change it',
    });
    expect(await operator('PATCH', neighbour, { metadata: { finalizers: null } })).toEqual(taken(200));
  });

  it('not even the operator changes what runs', async () => {
    const evil = { spec: { image: 'registry.test/evil:1' } };
    await eventually(
      async () => (await operator('PATCH', neighbour, { metadata: { labels: { a: 'b' } } })).status === 200,
      { what: 'the operator may change it' },
    );
    expect(await operator('PATCH', neighbour, evil)).toEqual(
      refused('may not deploy into the Capsule cabin'),
    );
  });

  it('the operator and the cluster’s collector of garbage delete', async () => {
    const collector = await policyServer.controller('generic-garbage-collector');
    for (const ask of [operator, collector])
      await eventually(async () => (await ask('DELETE', neighbour)).status === 200, {
        what: 'who cleans up may delete',
      });
  });
});

it('a namespace that goes takes its Assistants with it', async () => {
  const path = '/api/v1/namespaces/home';
  const { client } = policyServer.server;
  const body = { metadata: { annotations: { 'platform.space/open': 'true' } } };
  await client.call({ method: 'PATCH', path, contentType: 'application/merge-patch+json', body });
  await client.call({ method: 'DELETE', path });
  const controller = await policyServer.controller('namespace-controller');
  await eventually(async () => (await controller('DELETE', ASSISTANTS)).status === 200, {
    what: 'Assistants go with their namespace',
  });
});
