import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import type { ApiServer } from '../../testing/api-server.ts';
import { eventually } from '../../testing/eventually.ts';
import * as kinds from '../kinds.ts';
import { pathOf } from '../runtime/kube-object.ts';

/** What an API server needs before Spaces can be on it: the two kinds, and a node that reports the handler. */
export async function prepareCluster({ client }: ApiServer, crds: readonly unknown[]): Promise<void> {
  const root = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
  for (const body of crds) await client.call({ method: 'POST', path: root, body });
  await client.call({ method: 'POST', path: pathOf(kinds.NODE), body: { metadata: { name: 'node' } } });
  // Admission taints a new node as not ready, and the controller that would take that away is not here.
  await client.call({
    method: 'PATCH',
    path: pathOf(kinds.NODE, undefined, 'node'),
    contentType: 'application/merge-patch+json',
    body: { spec: { taints: null } },
  });
  await client.call({
    method: 'PATCH',
    path: pathOf(kinds.NODE, undefined, 'node', 'status'),
    contentType: 'application/merge-patch+json',
    body: {
      status: {
        conditions: [{ type: 'Ready', status: 'True', reason: 'KubeletReady', message: '' }],
        runtimeHandlers: [{ name: 'runc' }, { name: 'runsc' }],
      },
    },
  });
  const served = () =>
    client.call({ method: 'GET', path: '/apis/platform.space/v1/assistants' }).then(() => true);
  await eventually(served, { what: 'both kinds are served' });
}

const CRDS = join(import.meta.dirname, '../../crds');

export function readCrds(): unknown[] {
  return readdirSync(CRDS)
    .filter((file) => file.endsWith('.yaml'))
    .flatMap((file) =>
      parseAllDocuments(readFileSync(join(CRDS, file), 'utf8')).map((document) => document.toJS()),
    );
}
