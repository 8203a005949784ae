/** Where the suites look for the servers that keep a Space's data, and how a Space gets ones that its release does not run. */
import { readFile } from 'node:fs/promises';
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

/** A PostgreSQL for one Space that runs in the cluster already, where `psql -U postgres` in its pod is its superuser. */
interface GivenPostgres extends Omit<Engine, 'image'> {
  /** The value `postgres.external` of a release. */
  readonly external: object;
  /** The password of `space_broker` and `space_objectstore`. */
  readonly password: string;
}

/** What the file says that SPACE_OWN_POSTGRES names. */
export async function givenPostgres(): Promise<GivenPostgres | undefined> {
  const file = process.env['SPACE_OWN_POSTGRES'];
  return file === undefined ? undefined : (JSON.parse(await readFile(file, 'utf8')) as GivenPostgres);
}

/** A PostgreSQL as a provider hands it out, if none is given, and an S3 server: in a namespace of their own, for one Space. */
export async function startEngines(
  kube: Kube,
  space: string,
  images: EngineImages,
  given?: GivenPostgres,
): Promise<OwnEngines> {
  const namespace = placeOfEngines(space);
  const started = async (): Promise<GivenPostgres> => {
    const { external, password } = await startOwnPostgres(kube, namespace, images.postgres);
    return { namespace, pod: 'pg', service: 'pg', external, password };
  };
  const [postgres, s3] = await Promise.all([given ?? started(), startProvider(kube, namespace, images.s3)]);
  const { 'access-key-id': id, 'secret-access-key': key } = s3.fields;
  const secret = (name: string, stringData: object) => ({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, namespace: `${space}-services` },
    stringData,
  });
  return {
    engines: {
      postgres: {
        namespace: postgres.namespace,
        pod: postgres.pod,
        service: postgres.service,
        image: images.postgres,
      },
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
