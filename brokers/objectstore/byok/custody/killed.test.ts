import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Stage, setStage } from '../../testing/stage.ts';
import { type OwnStore, startOwnStore } from '../credentials/testing/byok.ts';
import { killRotations } from './testing/killed.ts';

let store: OwnStore;
let stage: Stage;
beforeAll(async () => {
  store = await startOwnStore();
  stage = await setStage({ environment: store.environment });
});
afterAll(async () => {
  await stage?.close();
  await store?.remove();
});

it('a broker that is killed at any moment of a rotation leaves the old state or the new one', async () => {
  // `npm run soak -- custody-kills` does a hundred.
  expect(await killRotations(stage, store, 10, Math.random)).toMatchObject({ rounds: 10 });
});
