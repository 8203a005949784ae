import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { BUCKET } from '../../../brokers/objectstore/testing/broker.ts';
import { openFixtureOn } from '../../../brokers/objectstore/testing/fixture.ts';
import { manifest } from '../../../operator/testing/manifest.ts';
import { IMAGE } from '../../../operator/testing/space.ts';
import { openTestEnvironment } from '../../../operator/testing/test-environment.ts';
import { assemble } from './parts.ts';
import { tenants } from './tenant.ts';
import type { World } from './world.ts';

/** Opens a Space whose parts are processes of this machine. */
export async function openProcesses(): Promise<World> {
  // Commits must survive processes but not the machine, so nothing needs to reach the disk.
  const environment = await openTestEnvironment({ settings: { synchronous_commit: 'on' } });
  try {
    const { database, server } = environment;
    const made = await environment.space();
    const objects = await openFixtureOn(database.server);
    const processes = await assemble(environment, made, objects);
    const space = { client: server.client, names: made.names, namespaceOf: made.namespaceOf, get: made.get };
    return {
      title: 'Operator, brokers and PostgreSQL killed at random moments, real API server, no kubelet',
      space,
      parts: processes.parts,
      make: (id) => ({ image: IMAGE, manifest: manifest(id) }),
      tenant: tenants(space, processes.dataUrl),
      sight: {
        databases: database.registry,
        files: objects.registry,
        objects: () => filesIn(join(objects.s3.directory, BUCKET, 'c')),
      },
      secrets: ['database', 'objectstore'],
      ended: () => [],
      rows: () => [],
      async close() {
        await processes.remove();
        await objects.close();
        await environment.close();
      },
    };
  } catch (error) {
    await environment.close();
    throw error;
  }
}

/** The S3 server stores an object as a file. */
async function filesIn(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true }).catch(() => []);
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}
