import { describe, expect, test } from 'vitest';
import { eventually } from '../testing/eventually.ts';
import * as kinds from './kinds.ts';
import { LABEL } from './names.ts';
import { TransportError } from './runtime/errors.ts';
import { eachFixture } from './testing/fixture.ts';
import type { TestSpace } from './testing/space.ts';
import type { TestEnvironment } from './testing/test-environment.ts';

/** What stays of an Assistant whose deletion keeps its data, and who gets it. */

const { ASSISTANT, CAPSULE, CONFIG_MAP, DEPLOYMENT, POD, SECRET, SERVICE } = kinds;
const READY = 'True Ready';
let environment: TestEnvironment;
let space: TestSpace;
let home: string;
let before: string[];

eachFixture(async (fixture) => {
  ({ environment, space, home, before } = fixture);
  await space.start();
});

const claimOf = (namespace: string) => space.get<kinds.SecretObject>(SECRET, 'ledger-database', namespace);
const policyOf = async () => (await space.get<kinds.Assistant>(ASSISTANT, 'ledger'))?.status?.deletionPolicy;
const shows = (policy: string) =>
  eventually(async () => (await policyOf()) === policy, { what: `the status shows ${policy}` });

describe('an Assistant that keeps its data', () => {
  test('leaves no pods and no URL, and the next one with its id takes over the database', async () => {
    const namespace = await space.settled();
    const url = await space.urlOf('ledger');
    const kept = await environment.databases();
    await space.patch(ASSISTANT, 'ledger', { spec: { deletionPolicy: 'Retain' } });
    await shows('Retain');
    await space.removed(ASSISTANT, 'ledger');
    for (const kind of [POD, DEPLOYMENT, SERVICE, CONFIG_MAP])
      expect(
        (await space.list(kind, namespace)).map(({ metadata }) => metadata.labels?.[LABEL.assistant]),
      ).not.toContain('ledger');
    const secrets = await space.list<kinds.SecretObject>(SECRET, namespace);
    expect(
      secrets.map(({ metadata, data }) => [metadata.name, metadata.labels?.[LABEL.retained], data]),
    ).toEqual([['ledger-database', 'true', undefined]]);
    expect(await environment.databases()).toEqual(kept);

    await space.assistant('ledger', { capsule: home });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    expect(await space.urlOf('ledger')).toBe(url);
    expect((await claimOf(namespace))?.metadata.labels?.[LABEL.retained]).toBeUndefined();
    expect(await policyOf()).toBe('Drop');
    // This one does not keep it.
    await space.removed(ASSISTANT, 'ledger');
    expect(await space.list(SECRET, namespace)).toEqual([]);
    expect((await environment.databases()).length).toBeLessThan(kept.length);
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });

  test('keeps it as its Capsule does when both are deleted at once, the Assistant first', async () => {
    await space.capsule(home, { deletionPolicy: 'Retain' });
    await space.assistant('ledger', { capsule: home });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    expect(await policyOf()).toBe('Retain');
    const url = await space.urlOf('ledger');
    const kept = await environment.databases();
    await space.delete(ASSISTANT, 'ledger');
    await space.delete(CAPSULE, home);
    await space.goes(CAPSULE, home);
    expect(await environment.databases()).toEqual(kept);
    await space.settled();
    expect(await space.urlOf('ledger')).toBe(url);
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });

  test('keeps it also by a request on its Capsule that the operator has not seen yet', async () => {
    await space.settled();
    const kept = await environment.databases();
    await space.stop();
    // The watch of Capsules brings no events; direct reads are up to date.
    const { client } = environment.server;
    const silence = async function* (signal: AbortSignal | undefined): AsyncGenerator<string> {
      await new Promise((end) => signal?.addEventListener('abort', end));
    };
    await space.start({
      client: {
        call: (request) =>
          request.path.endsWith(`/capsules/${home}/status`)
            ? Promise.reject(new TransportError('its answer would tell, too'))
            : client.call(request),
        lines: async (request) =>
          request.path.endsWith('/capsules') ? silence(request.signal) : client.lines(request),
      },
    });
    await space.patch(CAPSULE, home, { spec: { deletionPolicy: 'Retain' } });
    await space.removed(ASSISTANT, 'ledger');
    expect(await environment.databases()).toEqual(kept);
    await space.stop();
    await space.start();
    await space.patch(CAPSULE, home, { spec: { deletionPolicy: 'Drop' } });
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });

  test('loses it with a Capsule that drops everything', async () => {
    await space.settled();
    await space.patch(ASSISTANT, 'ledger', { spec: { deletionPolicy: 'Retain' } });
    await space.removed(ASSISTANT, 'ledger');
    expect(await environment.databases()).not.toEqual(before);
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });

  test('is dropped with Drop, although its Capsule keeps its data', async () => {
    const namespace = await space.settled();
    await space.patch(CAPSULE, home, { spec: { deletionPolicy: 'Retain' } });
    await space.patch(ASSISTANT, 'ledger', { spec: { deletionPolicy: 'Drop' } });
    await shows('Drop');
    const kept = await environment.databases();
    await space.removed(ASSISTANT, 'ledger');
    expect(await space.list(SECRET, namespace)).toEqual([]);
    expect((await environment.databases()).length).toBeLessThan(kept.length);
    await space.patch(CAPSULE, home, { spec: { deletionPolicy: 'Drop' } });
    await space.removed(CAPSULE, home);
  });
});
