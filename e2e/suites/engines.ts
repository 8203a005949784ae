/** Where the suites look for the servers that keep a Space's data, and how a Space gets ones that its release does not run. */
import type { EngineImages } from '../space/index.ts';
import type { Kube } from '../space/kube.ts';
import { startOwnPostgres } from '../space/testing/own-postgres.ts';
import { startProvider } from '../space/testing/provider.ts';

export interface Engine {
  readonly namespace: string;
  readonly pod: string;
  readonly service: string;
  readonly image: string;
}
export type Engines = Readonly<Record<'postgres' | 's3', Engine>>;

/** Those that a release runs itself, in its services namespace. */
export function enginesOfChart(namespace: string, images: EngineImages): Engines {
  const engine = (name: 'postgres' | 's3') => ({
    namespace,
    pod: `${name}-0`,
    service: name,
    image: images[name],
  });
  return { postgres: engine('postgres'), s3: engine('s3') };
}

export interface OwnEngines {
  readonly engines: Engines;
  /** Of the release that uses them. */
  readonly values: Readonly<Record<'postgres' | 'objectStore' | 'existingSecrets', object>>;
  /** What these values name, in the release's services namespace. */
  readonly secrets: readonly object[];
}

export const placeOfEngines = (space: string) => `engines-of-${space}`;

/** A PostgreSQL as a provider hands it out, and an S3 server: in a namespace of their own, for one Space. */
export async function startEngines(kube: Kube, space: string, images: EngineImages): Promise<OwnEngines> {
  const namespace = placeOfEngines(space);
  const [postgres, s3] = await Promise.all([
    startOwnPostgres(kube, namespace, images.postgres),
    startProvider(kube, namespace, images.s3),
  ]);
  const { 'access-key-id': id, 'secret-access-key': key } = s3.fields;
  const secret = (name: string, stringData: object) => ({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, namespace: `${space}-services` },
    stringData,
  });
  return {
    engines: {
      postgres: { namespace, pod: 'pg', service: 'pg', image: images.postgres },
      s3: { namespace, pod: 's3', service: 's3', image: images.s3 },
    },
    values: {
      postgres: { external: postgres.external },
      objectStore: { external: s3.external },
      existingSecrets: { dbAdmin: 'pg-admin', objectStoreRegistry: 'pg-files', s3Root: 's3-of-ours' },
    },
    secrets: [
      secret('pg-admin', { password: postgres.password }),
      secret('pg-files', { password: postgres.password }),
      secret('s3-of-ours', { 'access-key': id, 'secret-key': key }),
    ],
  };
}
