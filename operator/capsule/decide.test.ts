import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Capsule, SecretObject } from '../kinds.ts';
import { ANNOTATION, capsuleNamespace, LABEL } from '../names.ts';
import { asBefore, decideName, decideNamespace, decidePrincipal, isProvisioned } from './decide.ts';

const capsule: Capsule = { metadata: { name: 'home', uid: 'u1' }, spec: {} };
const mine = { annotations: { [ANNOTATION.owner]: 'u1' }, labels: { [LABEL.capsule]: 'home' } };
const verdict = ({ act, ...rest }: { act: string; finding?: { reason: string } }) =>
  rest.finding ? `${act} ${rest.finding.reason}` : act;

test.each<[string, string]>([
  ['home', 'True'],
  ['a-1-b', 'True'],
  ['a'.repeat(40), 'True'],
  ['a'.repeat(41), 'False'],
  ['postgres', 'False'],
  ['assistant-egress', 'False'],
  ['a.b', 'False'],
  ['1a', 'False'],
  ['a--b', 'False'],
  ['a-', 'False'],
])('the name %s is valid: %s', (name, status) => expect(decideName(name).status).toBe(status));

test.each<[string, object, boolean, boolean]>([
  ['nothing', {}, false, false],
  ['usage of its database', { usage: { database: {} } }, true, false],
  ['usage of its files', { usage: { storage: {} } }, false, true],
  ['a database that is ready', { conditions: [{ type: 'DatabaseReady', status: 'True' }] }, true, false],
  ['a database that is not', { conditions: [{ type: 'DatabaseReady', status: 'False' }] }, false, false],
])('a Capsule with %s in its status has data with each broker accordingly', (_, status, database, files) => {
  const known = { ...capsule, status } as Capsule;
  expect(isProvisioned(known, 'DatabaseReady')).toBe(database);
  expect(isProvisioned(known, 'ObjectStoreReady')).toBe(files);
});

describe('the namespace', () => {
  const live = (metadata: object) => ({ metadata: { name: 'ns', ...metadata } });
  test.each<[string, ReturnType<typeof live> | undefined, string]>([
    ['that is not there is made', undefined, 'create'],
    ['that this Capsule made is kept', live(mine), 'keep'],
    ['that says nothing of us is refused', live({}), 'refuse NamespaceConflict'],
    [
      'of an earlier Capsule of the name is refused',
      live({ ...mine, annotations: { [ANNOTATION.owner]: 'u0' } }),
      'refuse NamespaceConflict',
    ],
    [
      'that has the label of another Capsule is refused',
      live({ ...mine, labels: { [LABEL.capsule]: 'other' } }),
      'refuse NamespaceConflict',
    ],
    [
      'that is going is waited for',
      live({ ...mine, deletionTimestamp: 'now' }),
      'refuse NamespaceTerminating',
    ],
  ])('%s', (_, found, expected) => expect(verdict(decideNamespace(capsule, 'ns', found))).toBe(expected));
});

describe('the principal', () => {
  const secret = (metadata: object, data?: Record<string, string>): SecretObject => ({
    metadata: { name: 's', ...metadata },
    ...(data ? { data } : {}),
  });
  const other = { ...mine, annotations: { [ANNOTATION.owner]: 'u0' } };
  const retained = { ...other, labels: { ...mine.labels, [LABEL.retained]: 'true' } };
  test.each<[string, SecretObject | undefined, string]>([
    ['that is not there is made', undefined, 'create'],
    ['that this Capsule made is kept', secret(mine, { principal: 'x' }), 'keep'],
    ['that was retained is taken up', secret(retained, { principal: 'x', 'database-url': 'y' }), 'adopt'],
    ['of another incarnation is refused', secret(other, { principal: 'x' }), 'refuse PrincipalConflict'],
    [
      'retained for another Capsule is refused',
      secret({ ...retained, labels: { [LABEL.retained]: 'true' } }),
      'refuse PrincipalConflict',
    ],
    ['that was emptied is refused', secret(mine, {}), 'refuse PrincipalLost'],
  ])('%s', (_, found, expected) => expect(verdict(decidePrincipal(capsule, found))).toBe(expected));

  test('that was emptied is reported with its place, and with what to do without a backup', () => {
    const refused = decidePrincipal(capsule, secret({ ...mine, namespace: 'home-system' }, {}));
    const message = 'finding' in refused ? refused.finding.message : '';
    expect(message).toMatch(
      /Secret "s" of namespace "home-system" .* delete the Secret \(annotate it platform.space\/open=true first\)/,
    );
  });
});

describe('what a broker has stored before', () => {
  const told = (type: string, status: 'True' | 'False'): Capsule => ({
    ...capsule,
    status: { conditions: [{ type, status, reason: 'Ready', message: 'It is.', lastTransitionTime: '' }] },
  });
  test.each<[string, Capsule, object]>([
    ['is so still', told('DatabaseReady', 'True'), { status: 'True', reason: 'Ready', message: 'It is.' }],
    ['waits where it was not so', told('DatabaseReady', 'False'), { status: 'Unknown', reason: 'Waiting' }],
    ['says nothing of another broker', told('ObjectStoreReady', 'True'), { reason: 'Waiting' }],
    ['waits where nothing was told', capsule, { reason: 'Waiting' }],
  ])('%s', (_, given, expected) => expect(asBefore(given, 'DatabaseReady')).toMatchObject(expected));
});

describe('the name of a namespace', () => {
  const id = fc
    .stringMatching(/^[a-z][a-z0-9]{0,10}(-[a-z0-9]{1,10}){0,3}$/)
    .filter((text) => text.length <= 40);
  test('is short enough, and contains the names of Space and Capsule', () => {
    fc.assert(
      fc.property(id, id, (space, name) => {
        const made = capsuleNamespace(space, name);
        expect(made.length).toBeLessThanOrEqual(63);
        expect(made).toMatch(/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/);
        expect(made.startsWith(space.slice(0, 40))).toBe(true);
      }),
    );
  });
  test('differs for another pair, also when both are joined to the same text', () => {
    expect(capsuleNamespace('a-b', 'c')).not.toBe(capsuleNamespace('a', 'b-c'));
  });
});
