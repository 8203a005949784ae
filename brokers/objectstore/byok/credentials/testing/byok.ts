import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Fields } from '@space/contracts/objectstore';
import { makeAuthority } from '../../../../../testing/certificates.ts';
import { type S3Server, startS3Server } from '../../../../../testing/s3.ts';
import type { Client, Reply } from '../../../testing/broker.ts';

/** A Capsule's own S3 server: with TLS, a name that only the broker under test can resolve, and its own CA. */
export interface OwnStore {
  readonly server: S3Server;
  /** Variables of the broker's environment. */
  readonly environment: Record<string, string>;
  /** Values that verify, for a new bucket. */
  fields(change?: Partial<Fields>): Fields;
  remove(): Promise<void>;
}

const HOST = 's3.tenant.example';

export async function startOwnStore(): Promise<OwnStore> {
  const directory = mkdtempSync(join(tmpdir(), 'space-own-store-'));
  const authority = makeAuthority(directory, 'tenant-ca');
  const server = await startS3Server({ tls: authority.sign('tenant-s3', [`DNS:${HOST}`]) });
  const { port } = new URL(server.endpoint);
  return {
    server,
    environment: {
      BYOK_CA_FILE: authority.cert,
      BYOK_FIXED_HOSTS: `${HOST}=127.0.0.1`,
      BYOK_VERIFICATIONS_PER_MINUTE: '100000',
      // The machine may be busy with other tests, and its disk as well.
      BYOK_VERIFICATION_SECONDS: '60',
    },
    fields: (change = {}) => {
      const bucket = change.bucket ?? `tenant-${randomBytes(6).toString('hex')}`;
      if (change.bucket === undefined) server.makeBucket(bucket);
      return {
        endpoint: `https://${HOST}:${port}`,
        region: server.region,
        addressing: 'path',
        'access-key-id': server.accessKeyId,
        'secret-access-key': server.secretAccessKey,
        ...change,
        bucket,
      };
    },
    remove: async () => {
      await server.remove();
      rmSync(directory, { recursive: true });
    },
  };
}

/** The five operations as a Capsule's principal calls them. */
export interface CredentialClient {
  list(): Promise<Reply>;
  create(name: string, fields: Fields, expected: number, key?: string): Promise<Reply>;
  rotate(setId: string, fields: Fields, expected: number, key?: string): Promise<Reply>;
  select(setId: string | null, expected: number): Promise<Reply>;
  delete(setId: string, expected: number): Promise<Reply>;
}

export function credentialsOf(client: Client, capsule_id: string): CredentialClient {
  const post = (operation: string, body: Record<string, unknown>) =>
    client.post(`/v1/capsules/credentials/${operation}`, { capsule_id, ...body });
  const fresh = () => randomBytes(16).toString('hex');
  return {
    list: () => post('list', {}),
    create: (name, fields, expected_inventory_generation, idempotency_key = fresh()) =>
      post('create', { name, form_version: 1, fields, expected_inventory_generation, idempotency_key }),
    rotate: (set_id, fields, expected_generation, idempotency_key = fresh()) =>
      post('rotate', { set_id, form_version: 1, fields, expected_generation, idempotency_key }),
    select: (set_id, expected_inventory_generation) =>
      post('select', { set_id, expected_inventory_generation }),
    delete: (set_id, expected_generation) => post('delete', { set_id, expected_generation }),
  };
}
