import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { readJson, replaceFile } from './files.ts';
import type { Provider } from './model.ts';

/** The cluster of commands that name none. */
export const DEFAULT_CLUSTER = 'space';

const SPACE = join(import.meta.dirname, '..', '..', '.space');

/** What this checkout records about a cluster that it brought up. */
export interface ClusterRecord {
  readonly provider: Provider;
  readonly kubeconfig: string;
  readonly imageRegistry?: string;
  /** Set for kind, if the creation was not interrupted. */
  readonly whole?: boolean;
}

/** This checkout's directory for one cluster; the default one has the short paths that people type. */
export const clusterDirectory = (name: string): string =>
  name === DEFAULT_CLUSTER ? SPACE : join(SPACE, 'clusters', name);

export const kubeconfigPath = (name: string): string => join(clusterDirectory(name), 'kubeconfig');

export async function readRecord(name: string): Promise<ClusterRecord | undefined> {
  return readJson<ClusterRecord>(join(clusterDirectory(name), 'cluster.json'));
}

export async function writeRecord(name: string, record: ClusterRecord): Promise<void> {
  await mkdir(clusterDirectory(name), { recursive: true });
  await replaceFile(join(clusterDirectory(name), 'cluster.json'), JSON.stringify(record));
}

export async function removeRecord(name: string): Promise<void> {
  // The default cluster's directory is shared with other files, so only the cluster's own are removed.
  const own =
    name === DEFAULT_CLUSTER ? OWN_FILES.map((file) => join(SPACE, file)) : [clusterDirectory(name)];
  await Promise.all(own.map((path) => rm(path, { recursive: true, force: true })));
}

const OWN_FILES = ['cluster.json', 'kubeconfig', 'kubectl', 'kind.log', 'audit.json', 'images.log'];
