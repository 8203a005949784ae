import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { BrokerError } from '@space/contracts/client';
import { Secret } from '@space/contracts/secret';
import { afterEach, expect, test } from 'vitest';
import { DRIVER_DIRECTORY } from '../../brokers/objectstore/testing/broker.ts';
import { newCapsulePrincipal, objectStoreBroker } from './objects.ts';

const driver = readFileSync(join(DRIVER_DIRECTORY, 'objectstore.json'));
const open: (() => void)[] = [];
afterEach(() => {
  for (const close of open.splice(0)) close();
});

/** The client of a broker that answers everything with this. */
async function brokerThatSays(answer: object) {
  const server = createServer((request, response) => {
    response.setHeader('content-type', 'application/json');
    response.end(request.url === '/v1/driver' ? driver : JSON.stringify(answer));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  open.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  const url = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`;
  return objectStoreBroker({ url, driver, provisionerToken: async () => new Secret('none') });
}

test('a broker that selects a set that it does not have counts as unavailable, and ends no reconcile', async () => {
  const says = {
    inventory_generation: 1,
    selected: `ocs_${'s'.repeat(22)}`,
    sets: [],
    trace_id: '0'.repeat(32),
  };
  const broker = await brokerThatSays(says);
  const error = await broker
    .selection('home', newCapsulePrincipal(), AbortSignal.timeout(10_000))
    .catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(BrokerError);
  expect(error).toMatchObject({ failure: 'unreachable', broker: { deployment: 'objectstore-broker' } });
  const none = await brokerThatSays({ ...says, selected: null });
  await expect(
    none.selection('home', newCapsulePrincipal(), AbortSignal.timeout(10_000)),
  ).resolves.toBeUndefined();
});
