import { manifestDigest } from '@space/manifests';
import { expect, test } from 'vitest';
import { eventually } from '../../testing/eventually.ts';
import * as kinds from '../kinds.ts';
import { ANNOTATION } from '../names.ts';
import { eachFixture } from '../testing/fixture.ts';
import { manifest } from '../testing/manifest.ts';
import type { TestSpace } from '../testing/space.ts';

const { ASSISTANT, CAPSULE, DEPLOYMENT, POD } = kinds;
const READY = 'True Ready';
let space: TestSpace;
let home: string;

eachFixture(async (fixture) => {
  ({ space, home } = fixture);
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
  const told = async () => (await space.events('ledger')).filter(({ reason }) => reason === 'PowersWidened');
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
