import type { S3Client } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, test } from 'vitest';
import { type Stage, setStage } from '../../testing/stage.ts';
import type { Step } from './testing/cases/case.ts';
import { CASES } from './testing/cases/index.ts';
import { clientOf, players } from './testing/clients.ts';
import { play } from './testing/sdk.ts';

/** The AWS SDK for JavaScript, as it comes, plays the table; boto3 does in `npm run soak -- compat-objectstore`. */

let stage: Stage;
let clients: Record<Step['as'], S3Client>;

beforeAll(async () => {
  stage = await setStage();
  const { dataUrl } = stage.broker;
  const { me, neighbour, stranger } = await players(stage.broker);
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
  await stage?.close();
});

test.concurrent.for(CASES.map((one) => [one.name, one] as const))('%s', ([, one]) => play(one, clients));
