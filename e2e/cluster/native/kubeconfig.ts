import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { replaceFile } from '../files.ts';

/** A kubeconfig (in JSON, which is YAML) for one of the certificates of `pki`. */
export async function writeKubeconfig(
  file: string,
  { pki, user, cluster, server }: { pki: string; user: string; cluster: string; server: string },
): Promise<void> {
  const base64 = (name: string) => readFile(join(pki, name), 'base64');
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: cluster, cluster: { server, 'certificate-authority-data': await base64('ca.crt') } }],
    users: [
      {
        name: user,
        user: {
          'client-certificate-data': await base64(`${user}.crt`),
          'client-key-data': await base64(`${user}.key`),
        },
      },
    ],
    contexts: [{ name: cluster, context: { cluster, user } }],
    'current-context': cluster,
  };
  await replaceFile(file, JSON.stringify(config, null, 2), 0o600);
}
