import { S3Client } from '@aws-sdk/client-s3';
import { type Assistant, assistant, newAssistant } from '../../../testing/assistant.ts';
import type { TestBroker } from '../../../testing/broker.ts';
import type { Step } from './cases/case.ts';

/** Returns the clients of a case: an Assistant, another of its Capsule, and one of another Capsule. */
export async function players(broker: TestBroker): Promise<Readonly<Record<Step['as'], Assistant>>> {
  const capsule = await broker.capsule('home');
  const one = async (app: string) => assistant(broker.dataUrl, await broker.workload(capsule, 'home', app));
  return { me: await one('me'), neighbour: await one('neighbour'), stranger: await newAssistant(broker) };
}

export interface S3Keys {
  readonly AccessKeyId: string;
  readonly SecretAccessKey: string;
}

export async function keysOf(one: Assistant): Promise<S3Keys> {
  return (await one.call('GET', '/v1/s3/credentials')).json;
}

export async function clientOf(
  endpoint: string,
  one: Assistant,
  options: Partial<ConstructorParameters<typeof S3Client>[0]> = {},
): Promise<S3Client> {
  const { AccessKeyId, SecretAccessKey } = await keysOf(one);
  return new S3Client({
    endpoint,
    region: 'us-east-1',
    forcePathStyle: true,
    maxAttempts: 1,
    credentials: { accessKeyId: AccessKeyId, secretAccessKey: SecretAccessKey },
    ...options,
  });
}
