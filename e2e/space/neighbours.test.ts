/**
 * Spaces and Capsules whose names begin with the same text, on one real API server with the policies of each release.
 */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { namespaceObject } from '../../operator/capsule/guardrails.ts';
import { eventually } from '../../testing/eventually.ts';
import {
  asOperator,
  type Caller,
  holdLease,
  named,
  type PolicyServer,
  startPolicyServer,
} from './testing/policy-server.ts';

const SPACES = ['home', 'home-lab', 'lab'];
const CAPSULES = ['lab', 'lab-x', 'x'];
const NAMESPACES = '/api/v1/namespaces';

let policyServer: PolicyServer;
const operators = new Map<string, Caller>();

/** The namespace that the operator of a Space creates for a Capsule. */
const namespaceOf = (space: string, capsule: string) =>
  namespaceObject(
    {
      space,
      namespace: space,
      systemNamespace: `${space}-system`,
      servicesNamespace: `${space}-services`,
      runtimeClass: 'gvisor',
      handler: 'runsc',
      attesterImage: 'registry.test/attester:1',
      handlerReport: 'node',
      onLoss: 'keep',
      graceMs: 0,
    },
    { metadata: { name: capsule, uid: `uid-of-${capsule}-in-${space}` }, spec: {} },
  );
const nameOf = (space: string, capsule: string) => namespaceOf(space, capsule).metadata.name;
const operatorOf = (space: string) => {
  const operator = operators.get(space);
  if (!operator) throw new Error(`${space} has no operator`);
  return operator;
};
const pairs = SPACES.flatMap((space) => CAPSULES.map((capsule) => [space, capsule] as const));

beforeAll(async () => {
  policyServer = await startPolicyServer(SPACES);
  for (const space of SPACES) {
    operators.set(space, await asOperator(policyServer, 'operator', space));
    await holdLease(policyServer, 'operator', space);
  }
  for (const space of SPACES) {
    // Policies are in force, and rights are known, a moment after they were created.
    const fenced = async () => {
      const { text } = await operatorOf(space)(
        'POST',
        '/api/v1/namespaces/default/configmaps',
        named('note'),
      );
      return text.includes(`the operator of the Space ${space} may write`);
    };
    await eventually(fenced, { what: `the fence of ${space}` });
  }
}, 900_000);

afterAll(() => policyServer?.stop());

it('have nine names for nine Capsules', () => {
  expect(new Set(pairs.map(([space, capsule]) => nameOf(space, capsule))).size).toBe(9);
});

describe.each(pairs)('the operator of %s makes the namespace of its Capsule %s', (space, capsule) => {
  it('which no other Space’s policies judge', async () => {
    expect(await operatorOf(space)('POST', NAMESPACES, namespaceOf(space, capsule))).toEqual({
      status: 201,
      text: expect.any(String),
    });
  });

  it('and no operator of another makes, marks, changes or deletes it', async () => {
    const wanted = namespaceOf(space, capsule);
    const name = nameOf(space, capsule);
    const others = SPACES.filter((other) => other !== space);
    for (const other of others) {
      const ask = operatorOf(other);
      const made = await ask('POST', NAMESPACES, wanted);
      expect([other, made.status]).toEqual([other, expect.toBeOneOf([403, 422])]);
    }
    await policyServer.create(NAMESPACES, wanted);
    for (const other of others) {
      const ask = operatorOf(other);
      const mine = { 'platform.space/space': other, 'platform.space/capsule': capsule };
      const verdicts = [
        await ask('PATCH', `${NAMESPACES}/${name}`, { metadata: { labels: mine } }),
        await ask('PATCH', `${NAMESPACES}/${name}`, { metadata: { annotations: { note: 'x' } } }),
        await ask('POST', `${NAMESPACES}/${name}/configmaps`, named('note')),
        await ask('DELETE', `${NAMESPACES}/${name}`),
      ];
      for (const { status, text } of verdicts)
        expect([other, status, text]).toEqual([
          other,
          expect.toBeOneOf([403, 422]),
          expect.stringContaining('ValidatingAdmissionPolicy'),
        ]);
    }
    const kept = await operatorOf(space)('PATCH', `${NAMESPACES}/${name}`, wanted);
    expect(kept).toEqual({ status: 200, text: expect.any(String) });
  });
});

it('a namespace that bears another Space’s label is none of ours, whatever its name and mark', async () => {
  const { metadata } = namespaceOf('home', 'late');
  const labels = { ...metadata.labels, 'platform.space/space': 'nobody' };
  await policyServer.create(NAMESPACES, { metadata: { ...metadata, labels } });
  const adopted = await operatorOf('home')(
    'PATCH',
    `${NAMESPACES}/${metadata.name}`,
    namespaceOf('home', 'late'),
  );
  expect(adopted.status).toBeOneOf([403, 422]);
});
