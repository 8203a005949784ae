/** A real API server with all rights that the chart grants, with every option enabled. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { type ApiServer, startApiServer } from '../../../testing/api-server.ts';
import { findTool } from '../../cluster/tools.ts';
import { CHART, SOME_BACKUP, SOME_IMAGES } from '../chart.ts';
import { finish } from '../kube.ts';
import type { KubeObject } from '../kube-object.ts';
import { type Account, collectionOf, grantingObjects, PLACES } from '../rights-held.ts';

export interface WithRights {
  readonly server: ApiServer;
  /** The objects that grant rights, as they were written. */
  readonly objects: readonly KubeObject[];
  readonly accounts: readonly Account[];
  stop(): Promise<void>;
}

/** Every option is enabled, so that nothing that grants a right is left out. */
export const EVERYTHING = [...SOME_BACKUP, '--set', 'objectStore.dataPlane.byok=true'];

export async function startWithRights(): Promise<WithRights> {
  const directory = await mkdtemp(join(tmpdir(), 'space-rights-'));
  const helm = await findTool('helm', directory);
  const server = await startApiServer();
  const { client } = server;
  const stop = async () => {
    await server.stop();
    await rm(directory, { recursive: true, force: true });
  };
  try {
    const args = ['template', 'home', CHART, '--namespace', 'home', ...SOME_IMAGES, ...EVERYTHING];
    const { code, stdout, stderr } = await finish(helm, args);
    if (code !== 0) throw new Error(stderr);
    const rendered = parseAllDocuments(stdout).flatMap((one): KubeObject[] => one.toJS() ?? []);
    for (const name of PLACES)
      await client.call({ method: 'POST', path: '/api/v1/namespaces', body: { metadata: { name } } });
    const objects = grantingObjects(rendered);
    for (const object of objects)
      await client.call({ method: 'POST', path: collectionOf(object) ?? '', body: object });
    const accounts = objects.filter(({ kind }) => kind === 'ServiceAccount');
    return {
      server,
      objects,
      accounts: await Promise.all(accounts.map((one) => accountOf(server, one))),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function accountOf(server: ApiServer, object: KubeObject): Promise<Account> {
  const { name } = object.metadata;
  const { status } = await server.client.call<{ status: { token: string } }>({
    method: 'POST',
    path: `${collectionOf(object)}/${name}/token`,
    body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} },
  });
  return { name: `${object.metadata.namespace ?? 'home'}/${name}`, client: server.clientOf(status.token) };
}
