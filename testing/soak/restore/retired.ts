/** Credentials that were retired before a backup, and must not be accepted after its restore. */
import { COMMANDS } from '../../../brokers/db/commands.ts';
import type { TestBroker } from '../../../brokers/db/testing/broker.ts';
import { sqlstate } from '../../../brokers/db/testing/postgres.ts';

export interface Retired {
  readonly principal: string | undefined;
  readonly urls: readonly string[];
}

/** Drops a Capsule, and exchanges the password of an Assistant of another. */
export async function retire(broker: TestBroker): Promise<Retired> {
  const [dropped, kept] = [await broker.capsule('dropped'), await broker.capsule('kept')];
  const urls = [
    (await dropped.create('dropped', 'app')).json.database_url,
    (await kept.create('kept', 'app')).json.database_url,
  ];
  await dropped.dropAll('dropped');
  await broker.provisioner.finalize('dropped');
  await COMMANDS['rotate']?.run(broker.servers, 'a'.repeat(32), ['kept', 'app'], async () => '');
  await kept.create('kept', 'app');
  return { principal: dropped.token, urls };
}

/** The names of retired credentials that are accepted nevertheless. */
export async function acceptedOf(
  { principal, urls }: Retired,
  broker: TestBroker,
): Promise<readonly string[]> {
  const open: string[] = [];
  const { status } = await broker.as(principal).create('dropped', 'app');
  if (status === 200) open.push('the principal of a dropped Capsule');
  for (const url of urls)
    if ((await sqlstate(url)) === 'ok') open.push(`the former password of ${new URL(url).username}`);
  return open;
}
