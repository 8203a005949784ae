import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { COMMANDS } from '../brokers/db/commands.ts';
import { sqlstate } from '../brokers/db/testing/postgres.ts';
import { eventually } from '../testing/eventually.ts';
import { freePort } from '../testing/ports.ts';
import * as kinds from './kinds.ts';
import { ANNOTATION, principalSecretName } from './names.ts';
import { rotationAsked } from './rotation.ts';
import type { KubeObject, Resource } from './runtime/kube-object.ts';
import type { TestSpace } from './testing/space.ts';
import { openTestEnvironment, type TestEnvironment } from './testing/test-environment.ts';

const { ASSISTANT, CAPSULE, POD, SECRET } = kinds;
const EVENT: Resource = {
  group: 'events.k8s.io',
  version: 'v1',
  plural: 'events',
  kind: 'Event',
  namespaced: true,
};

describe('a value of the annotation', () => {
  const asked = (rotate: string | undefined, rotated?: string) =>
    rotationAsked(
      { metadata: { name: 'a', annotations: rotate === undefined ? {} : { [ANNOTATION.rotate]: rotate } } },
      {
        metadata: { name: 's', annotations: rotated === undefined ? {} : { [ANNOTATION.rotated]: rotated } },
      },
    );

  test('is a request until it is recorded as served, and without a value there is no request', () => {
    expect(asked('2026-11-21')).toBe('2026-11-21');
    expect(asked('2026-11-21', '2026-11-20')).toBe('2026-11-21');
    expect(asked('2026-11-21', '2026-11-21')).toBeUndefined();
    expect(asked(undefined, '2026-11-21')).toBeUndefined();
    expect(asked('')).toBeUndefined();
  });

  test('of any length and of any bytes is recorded in a recognisable form', () => {
    for (const value of ['x'.repeat(200_000), '\ud800', 'two words', '\u0000', `sha256:${'0'.repeat(64)}`]) {
      const note = asked(value);
      expect(note).toMatch(/^sha256:[0-9a-f]{64}$/);
      expect(note).not.toBe(value);
      expect(asked(value, note)).toBeUndefined();
    }
  });
});

describe('on a Space', () => {
  let environment: TestEnvironment;
  let space: TestSpace;
  let home: string;

  beforeAll(async () => {
    environment = await openTestEnvironment();
  });
  afterAll(() => environment?.close());
  beforeEach(async () => {
    space = await environment.space();
    home = space.home;
    await space.start();
  });
  afterEach(() => space.close());

  const mark = (...args: string[]) =>
    COMMANDS['rotate']?.run(
      environment.database.broker.servers,
      'a'.repeat(32),
      [home, ...args],
      async () => '',
    );
  const ask = (value: string, resource = ASSISTANT, name = 'ledger') =>
    space.patch(resource, name, { metadata: { annotations: { [ANNOTATION.rotate]: value } } });
  const secretOf = (name: string, namespace?: string) =>
    space.get<kinds.SecretObject>(SECRET, name, namespace);
  const served = async (value: string) =>
    (await secretOf('ledger-database', space.namespaceOf(home)))?.metadata.annotations?.[
      ANNOTATION.rotated
    ] === value;
  const pods = () => space.list<kinds.Pod>(POD, space.namespaceOf(home));
  const events = async () =>
    (await space.list<KubeObject & { reason: string }>(EVENT)).map(({ reason }) => reason);
  const creates = () => space.run.acts.filter((act) => act === 'createApp').length;
  const outcomes = async (app: string) =>
    (
      await environment.database.registry<{ outcome: string }>(
        'SELECT outcome FROM broker.audit WHERE capsule_id = $1 AND app_id = $2 AND outcome = $3',
        [home, app, 'rotated'],
      )
    ).length;
  /** One pod, and it is none of those before. */
  const rolled = async (before: readonly kinds.Pod[]) => {
    const now = await pods();
    return now.length === 1 && !before.some(({ metadata }) => metadata.name === now[0]?.metadata.name);
  };

  test('a marked rotation is served once: another URL, other pods, and the old URL no longer works', async () => {
    await space.settled();
    const [url, before] = [await space.urlOf('ledger'), await pods()];
    await mark('ledger');
    expect(creates()).toBe(1);
    expect(await sqlstate(url)).toBe('ok');
    await ask('2026-11-21');
    await eventually(() => served('2026-11-21'), { what: 'the request is noted as served' });
    const fresh = await space.urlOf('ledger');
    expect([fresh === url, await sqlstate(url), await sqlstate(fresh)]).toEqual([false, '28P01', 'ok']);
    await eventually(() => rolled(before), { what: 'the pods are others' });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', 'True Ready');
    await eventually(async () => (await events()).includes('CredentialsRotated'), { what: 'the Event' });

    await mark('ledger');
    await space.patch(ASSISTANT, 'ledger', { metadata: { annotations: { note: 'of no meaning' } } });
    await space.restartedAndLooked();
    expect([creates(), await space.urlOf('ledger'), await outcomes('ledger')]).toEqual([0, fresh, 1]);
    await space.removed(CAPSULE, home);
  });

  test('without a mark the URL and the pods stay, and an Event says what to do first', async () => {
    await space.settled();
    const [url, before] = [await space.urlOf('ledger'), await pods()];
    await ask('too early');
    await eventually(async () => (await events()).includes('RotationNotMarked'), { what: 'the Event' });
    expect(await space.urlOf('ledger')).toBe(url);
    expect((await pods()).map(({ metadata }) => metadata.uid)).toEqual(
      before.map(({ metadata }) => metadata.uid),
    );
    await space.removed(CAPSULE, home);
  });

  test('an annotation that exists from the creation is served by the first URL', async () => {
    await space.capsule(home);
    await space.stop();
    await space.assistant('ledger', { capsule: home });
    await ask('from-birth');
    await space.start();
    await space.becomes(ASSISTANT, 'ledger', 'Ready', 'True Ready');
    expect([await served('from-birth'), creates()]).toEqual([true, 1]);
    await space.removed(CAPSULE, home);
  });

  test("the annotation on a Capsule serves the Capsule's own URL", async () => {
    await space.settled();
    const urlOf = async () => {
      const secret = await secretOf(principalSecretName(home));
      return Buffer.from(secret?.data?.['database-url'] ?? '', 'base64').toString();
    };
    const url = await urlOf();
    await mark();
    await ask('now', CAPSULE, home);
    await eventually(async () => (await urlOf()) !== url, { what: 'the URL is another' });
    expect([await sqlstate(url), await sqlstate(await urlOf())]).toEqual(['28P01', 'ok']);
    expect(await outcomes('')).toBe(1);
    await space.removed(CAPSULE, home);
  });

  test('while the broker is unavailable the Assistant keeps running, and its condition says what it waits for', async () => {
    await space.settled();
    const [url, before] = [await space.urlOf('ledger'), await pods()];
    await mark('ledger');
    await space.stop();
    await space.start({ brokerUrl: `http://127.0.0.1:${await freePort()}` });
    await ask('away');
    await space.becomes(ASSISTANT, 'ledger', 'DatabaseReady', 'False BrokerUnreachable');
    await space.becomes(ASSISTANT, 'ledger', 'WorkloadReady', 'True Ready');
    expect([await space.urlOf('ledger'), await sqlstate(url), (await pods()).length]).toEqual([url, 'ok', 1]);
    await space.stop();
    await space.start();
    await eventually(() => served('away'), { what: 'the request is noted as served' });
    await eventually(() => rolled(before), { what: 'the pods are others' });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', 'True Ready');
    await space.removed(CAPSULE, home);
  });

  test('another CA reaches the pods with a new request for the URL, and its removal does too', async () => {
    const namespace = await space.settled();
    const mounted = async () => {
      const deployment = await space.get<kinds.Deployment>(kinds.DEPLOYMENT, 'ledger', namespace);
      const { containers = [], volumes = [] } = deployment?.spec?.template.spec ?? {};
      const paths = volumes.flatMap(({ projected }) =>
        (projected?.sources ?? []).flatMap(({ secret }) => secret?.items?.map(({ path }) => path) ?? []),
      );
      const secret = await secretOf('ledger-database', namespace);
      return {
        paths,
        trusts: containers[0]?.env?.find(({ name }) => name === 'NODE_EXTRA_CA_CERTS')?.value,
        ca: Buffer.from(secret?.data?.['ca.crt'] ?? '', 'base64').toString(),
        databaseCa: Buffer.from(secret?.data?.['postgres.crt'] ?? '', 'base64').toString(),
      };
    };
    for (const given of [
      { ca: 'authority one' },
      { ca: 'authority two' },
      { ca: 'authority two', databaseCa: 'of a server that the Space does not run' },
      {},
    ]) {
      const { ca, databaseCa } = given;
      const before = await pods();
      await space.stop();
      await space.start(given);
      await eventually(() => rolled(before), { what: 'the pods are others' });
      await space.becomes(ASSISTANT, 'ledger', 'Ready', 'True Ready');
      expect(await mounted()).toEqual({
        paths: [
          'credentials/DATABASE_URL',
          ...(ca === undefined ? [] : ['tls/ca.crt']),
          ...(databaseCa === undefined ? [] : ['tls/postgres.crt']),
        ],
        trusts: ca === undefined ? undefined : '/etc/space/tls/ca.crt',
        ca: ca ?? '',
        databaseCa: databaseCa ?? '',
      });
      expect(creates()).toBe(1);
    }
    await space.removed(CAPSULE, home);
  });

  test('kill -9 after any step of a rotation leaves one complete rotation for each value', async () => {
    await space.settled();
    let after = 1;
    for (; ; after += 1) {
      const [url, before] = [await space.urlOf('ledger'), await pods()];
      const value = `crash-${after}`;
      await mark('ledger');
      space.run.arm(after);
      await ask(value);
      const whole = async () => (await served(value)) && (await rolled(before));
      await eventually(async () => space.run.dead || (await whole()), { what: 'its death, or its goal' });
      const { dead } = space.run;
      await space.stop();
      await space.start();
      await eventually(whole, { what: `the rotation after dying after act ${after}` });
      await space.becomes(ASSISTANT, 'ledger', 'Ready', 'True Ready');
      const fresh = await space.urlOf('ledger');
      expect([await sqlstate(url), await sqlstate(fresh)]).toEqual(['28P01', 'ok']);
      expect(await outcomes('ledger')).toBe(after);
      if (!dead) break;
    }
    // The broker, the Secret and the Deployment at least.
    expect(after).toBeGreaterThan(3);
    await space.removed(CAPSULE, home);
  });
});
