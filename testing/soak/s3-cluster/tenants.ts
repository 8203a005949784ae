import { newToken } from '../../../brokers/kit/index.ts';
import { clientOf } from '../../../brokers/objectstore/api/s3/testing/clients.ts';
import { assistant } from '../../../brokers/objectstore/testing/assistant.ts';
import { type Client, client, type Mounts } from '../../../brokers/objectstore/testing/broker.ts';
import type { BrokerProcess } from '../../../brokers/objectstore/testing/process.ts';
import { seeded } from '../../random.ts';
import { Caller } from './caller.ts';
import type { Watch } from './watch.ts';

const QUOTA_BYTES = 2 ** 40;

/** Creates a Capsule; returns clients with its principal, one for each broker. */
export async function newCapsule(
  brokers: readonly BrokerProcess[],
  mounts: Mounts,
  name: string,
): Promise<readonly Client[]> {
  const principal = newToken('osp').reveal();
  const [first] = brokers;
  if (first === undefined) throw new Error('no broker');
  const { status, text } = await client(first.url, mounts.provisioner).provision(name, principal, {
    quota_bytes: QUOTA_BYTES,
  });
  if (status !== 200) throw new Error(`provision ${name}: ${text}`);
  return brokers.map(({ url }) => client(url, principal));
}

/** Creates a Capsule of this name with one Assistant, which writes through all brokers. */
export async function newCaller(
  brokers: readonly BrokerProcess[],
  mounts: Mounts,
  name: string,
  watch: Watch,
  seed: number,
): Promise<Caller> {
  const [capsule] = await newCapsule(brokers, mounts, name);
  const token = newToken('osw').reveal();
  const made = await capsule?.create(name, 'writer', token);
  if (made?.status !== 200) throw new Error(`create ${name}: ${made?.text}`);
  const ways = await Promise.all(
    brokers.map(async ({ dataUrl: base }) => ({ base, s3: await clientOf(base, assistant(base, token)) })),
  );
  return new Caller({ name, token, ways, watch, random: seeded(seed) });
}
