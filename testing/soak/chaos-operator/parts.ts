import { randomUUID } from 'node:crypto';
import { bundleBroker } from '../../../brokers/db/testing/process.ts';
import type { Fixture as ObjectFixture } from '../../../brokers/objectstore/testing/fixture.ts';
import { spawnBroker as spawnObjectStore } from '../../../brokers/objectstore/testing/process.ts';
import { operatorProgram } from '../../../operator/testing/program.ts';
import type { TestSpace } from '../../../operator/testing/space.ts';
import type { TestEnvironment } from '../../../operator/testing/test-environment.ts';
import { freePort } from '../../ports.ts';
import type { EmbeddedServer } from '../../postgres/server.ts';
import type { Killable } from './killer.ts';

const MEAN_RUN_MS = { operator: 4_000, 'db-broker': 5_000, 'objectstore-broker': 6_000, postgres: 15_000 };

/** Starts the parts that are killed, each with a fixed port. */
export async function assemble(
  { server, database }: TestEnvironment,
  space: TestSpace,
  objects: ObjectFixture,
) {
  const [dbPort, objectsPort, dataPort] = [await freePort(), await freePort(), await freePort()];
  const dbBroker = await bundleBroker();
  // The brokers in this process are stopped, so that all work is done by those that are killed.
  await database.broker.stop();
  await objects.broker.stop();
  const operator = await operatorProgram({
    names: space.names,
    kubeconfig: server.kubeconfig,
    dbBrokerUrl: `http://127.0.0.1:${dbPort}`,
    dbProvisionerToken: database.mounts.provisioner,
    objectStore: {
      url: `http://127.0.0.1:${objectsPort}`,
      provisionerToken: objects.mounts.provisioner,
    },
  });
  const pod = { name: 'operator', uid: randomUUID() };
  const parts: Killable[] = [
    { name: 'operator', meanRunMs: MEAN_RUN_MS.operator, start: () => operator.start(pod) },
    {
      name: 'db-broker',
      meanRunMs: MEAN_RUN_MS['db-broker'],
      start: () => dbBroker.spawn({ ...database.mounts.environment, LISTEN_PORT: String(dbPort) }),
    },
    {
      name: 'objectstore-broker',
      meanRunMs: MEAN_RUN_MS['objectstore-broker'],
      start: () =>
        spawnObjectStore({
          ...objects.mounts.environment,
          LISTEN_PORT: String(objectsPort),
          DATA_PORT: String(dataPort),
        }),
    },
    { name: 'postgres', meanRunMs: MEAN_RUN_MS.postgres, start: postgres(database.server) },
  ];
  return {
    parts,
    dataUrl: `http://127.0.0.1:${dataPort}`,
    async remove() {
      dbBroker.remove();
      await operator.remove();
    },
  };
}

/** The server already runs at first; after a kill it is started with the same data. */
function postgres(server: EmbeddedServer): Killable['start'] {
  let started = true;
  return async () => {
    if (!started) await server.start();
    started = false;
    return { kill: () => server.kill(), gone: new Promise(() => {}) };
  };
}
