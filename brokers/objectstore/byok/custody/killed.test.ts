import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Fixture, openFixture } from '../../testing/fixture.ts';
import { type OwnStore, startOwnStore } from '../credentials/testing/byok.ts';
import { killRotations } from './testing/killed.ts';

let store: OwnStore;
let fixture: Fixture;
beforeAll(async () => {
  store = await startOwnStore();
  fixture = await openFixture({ environment: store.environment });
});
afterAll(async () => {
  await fixture?.close();
  await store?.remove();
});

it('a broker that is killed at any moment of a rotation leaves the old state or the new one', async () => {
  // `npm run soak -- custody-kills` does a hundred.
  expect(await killRotations(fixture, store, 10, Math.random)).toMatchObject({ rounds: 10 });
});
