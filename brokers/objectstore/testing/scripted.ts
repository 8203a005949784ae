import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import { portOf, Secret } from '@space/broker-kit';
import { createS3Client } from '../upstream/client.ts';
import { createPool } from '../upstream/managed.ts';
import type { S3Client } from '../upstream/types.ts';

/** A server on loopback that answers as a test says, where no S3 server would, and a client for it. */
export interface ScriptedServer {
  readonly server: Server;
  readonly s3: S3Client;
  close(): Promise<void>;
}

export async function startScripted(
  answer: RequestListener,
  { connections = 1, longMs }: { readonly connections?: number; readonly longMs?: number } = {},
): Promise<ScriptedServer> {
  const server = createServer((request, response) => {
    request.resume();
    answer(request, response);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const target = {
    origin: `http://127.0.0.1:${portOf(server)}`,
    region: 'us-east-1',
    bucket: 'tenant',
    addressing: 'path' as const,
    accessKeyId: new Secret('id'),
    secretAccessKey: new Secret('secret'),
  };
  const pool = createPool(target, { connections });
  return {
    server,
    s3: createS3Client(target, pool, undefined, longMs),
    async close() {
      await pool.destroy();
      server.closeAllConnections();
      server.close();
    },
  };
}
