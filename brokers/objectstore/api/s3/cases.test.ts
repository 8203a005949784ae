import type { S3Client } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, test } from 'vitest';
import { type Fixture, openFixture } from '../../testing/fixture.ts';
import type { Step } from './testing/cases/case.ts';
import { CASES } from './testing/cases/index.ts';
import { clientOf, players } from './testing/clients.ts';
import { play } from './testing/sdk.ts';

/** The AWS SDK for JavaScript, as it comes, plays the table; boto3 does in `npm run soak -- compat-objectstore`. */

let fixture: Fixture;
let clients: Record<Step['as'], S3Client>;

beforeAll(async () => {
  fixture = await openFixture();
  const { dataUrl } = fixture.broker;
  const { me, neighbour, stranger } = await players(fixture.broker);
  // It tries again by itself what fails with 5xx, as it does wherever a machine has too much to do.
  const asItComes = { maxAttempts: 3 };
  clients = {
    me: await clientOf(dataUrl, me, asItComes),
    neighbour: await clientOf(dataUrl, neighbour, asItComes),
    stranger: await clientOf(dataUrl, stranger, asItComes),
  };
});

afterAll(async () => {
  for (const client of Object.values(clients ?? {})) client.destroy();
  await fixture?.close();
});

test.concurrent.for(CASES.map((one) => [one.name, one] as const))('%s', ([, one]) => play(one, clients));
