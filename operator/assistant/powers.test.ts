import { manifestDigest } from '@space/manifests';
import { expect, test } from 'vitest';
import { eventually } from '../../testing/eventually.ts';
import * as kinds from '../kinds.ts';
import { ANNOTATION } from '../names.ts';
import { ApiError } from '../runtime/errors.ts';
import { eachFixture } from '../testing/fixture.ts';
import { manifest } from '../testing/manifest.ts';
import type { TestSpace } from '../testing/space.ts';
import type { TestEnvironment } from '../testing/test-environment.ts';

const { ASSISTANT, CAPSULE, DEPLOYMENT, POD } = kinds;
const READY = 'True Ready';
let environment: TestEnvironment;
let space: TestSpace;
let home: string;

eachFixture(async (fixture) => {
  ({ environment, space, home } = fixture);
  await space.start();
});

/** Somebody who writes both manifests tries numbers until the digests begin alike: 40 bits take seconds. */
const version = (number: string, scopes: readonly string[], tried: number) => {
  const asks = manifest('ledger', { integrations: { mail: { scopes } } });
  const genesis = `You do nothing, well: ${tried}.`;
  return { ...asks, platform: { ...asks.platform, version: number, genesis } };
};
const NARROW = version('1.0.0', ['read'], 775_961);
const WIDE = version('1.1.0', ['read', 'send'], 2_153_280);

const told = async () => (await space.events('ledger')).filter(({ reason }) => reason === 'PowersWidened');

test('a version whose digest begins like that of the running one is rolled out, with an Event about its new powers', async () => {
  const [before, after] = [NARROW, WIDE].map((one) => manifestDigest(one).slice(0, 10));
  expect(after).toBe(before);
  await space.capsule(home, { integrations: { mail: { scopes: ['read', 'send'] } } });
  await space.assistant('ledger', { capsule: home, manifest: NARROW });
  await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
  const namespace = space.namespaceOf(home);
  const template = async () =>
    (await space.get<kinds.Deployment>(DEPLOYMENT, 'ledger', namespace))?.spec?.template;
  const mounted = async () => JSON.stringify((await template())?.spec?.volumes);
  const first = await mounted();

  await space.patch(ASSISTANT, 'ledger', { spec: { manifest: WIDE } });
  await eventually(async () => (await told()).length > 0, { what: 'the Event' });
  expect((await told()).map(({ note }) => note)).toEqual([
    'Version 1.1.0 may do what 1.0.0 could not: it may use send of the integration mail.',
  ]);
  await eventually(async () => (await mounted()) !== first, { what: 'another manifest is mounted' });
  const revision = (await template())?.metadata?.annotations?.[ANNOTATION.revision];
  const ofRevision = async () =>
    (await space.list(POD, namespace)).map(({ metadata }) => metadata.annotations?.[ANNOTATION.revision]);
  await eventually(async () => String(await ofRevision()) === revision, { what: 'its pod is another' });
  await space.removed(CAPSULE, home);
});

test('new powers have their Event also if the operator ends as soon as it has rolled them out', async () => {
  const { client } = environment.server;
  const scopes = ['read', 'send'];
  let ends = false;
  let dead = false;
  /** Whether an Event about new powers was stored; the first attempt fails. */
  let stored: boolean | undefined;
  const rolledOut: (boolean | undefined)[] = [];
  const alive = (path: string) => {
    if (dead && !path.includes('/leases')) throw new Error('this operator is dead');
  };
  await space.stop();
  await space.start({
    client: {
      lines: (request) => client.lines(request),
      async call(request) {
        alive(request.path);
        const isAbout = (request.body as { reason?: string } | undefined)?.reason === 'PowersWidened';
        if (isAbout && stored === undefined) {
          stored = false;
          throw new ApiError({ status: 503, reason: 'ServiceUnavailable', message: 'away' });
        }
        const isRollout = ends && request.method === 'PATCH' && request.path.endsWith('/deployments/ledger');
        if (isRollout && !dead) rolledOut.push(stored);
        const answer = await client.call<never>(request);
        stored ||= isAbout;
        dead ||= isRollout;
        alive(request.path);
        return answer;
      },
    },
  });
  await space.capsule(home, { integrations: { mail: { scopes } } });
  await space.assistant('ledger', { capsule: home, manifest: version('1.0.0', ['read'], 1) });
  await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
  ends = true;
  await space.patch(ASSISTANT, 'ledger', { spec: { manifest: version('1.1.0', scopes, 1) } });
  await eventually(() => dead, { what: 'the operator has rolled it out and is dead' });
  expect(rolledOut).toEqual([true]);
  await space.stop();
  await space.start();
  await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
  expect((await told()).map(({ note }) => note)).toEqual([
    'Version 1.1.0 may do what 1.0.0 could not: it may use send of the integration mail.',
  ]);
  await space.removed(CAPSULE, home);
});

test('a version with new powers says what it waits for while no Event is stored, and waits for none that is refused', async () => {
  const { client } = environment.server;
  const scopes = ['read', 'send'];
  let said = 'etcdserver: request timed out';
  await space.stop();
  await space.start({
    client: {
      lines: (request) => client.lines(request),
      async call(request) {
        if ((request.body as { reason?: string } | undefined)?.reason === 'PowersWidened')
          throw new ApiError({ status: 500, reason: 'InternalError', message: said });
        return client.call<never>(request);
      },
    },
  });
  await space.capsule(home, { integrations: { mail: { scopes } } });
  await space.assistant('ledger', { capsule: home, manifest: version('1.0.0', ['read'], 1) });
  await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
  await space.patch(ASSISTANT, 'ledger', { spec: { manifest: version('1.1.0', scopes, 1) } });
  await space.becomes(ASSISTANT, 'ledger', 'WorkloadReady', 'False WriteRefused');
  expect(await space.message(ASSISTANT, 'ledger', 'WorkloadReady')).toContain(said);
  const { metadata, status } = (await space.get<kinds.Assistant>(ASSISTANT, 'ledger')) ?? {};
  expect(status?.observedGeneration).toBe(metadata?.generation);
  said = 'Internal error occurred: failed calling webhook "events.test": connection refused';
  await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
  expect(await told()).toEqual([]);
  await space.removed(CAPSULE, home);
});
