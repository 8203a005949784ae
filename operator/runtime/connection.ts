import { createHash } from 'node:crypto';
import type { RequestOptions } from 'node:https';
import type { KubeConfig } from '@kubernetes/client-node';
import { Agent, type Dispatcher } from 'undici';

/** Server, credentials and connection pool; credentials and certificates are read again as they rotate. */
export interface Connection {
  readonly server: string;
  prepare(): Promise<{ readonly dispatcher: Dispatcher; readonly headers: Readonly<Record<string, string>> }>;
  close(): Promise<void>;
}

/** A projected token lives for an hour, and client-go reads it again every minute; this is sooner and still cheap. */
const REFRESH_MS = 30_000;

export interface ConnectOptions {
  /** With HTTP/2, calls share one connection; without it, a call that is abandoned closes only its own. */
  readonly allowH2?: boolean;
}

export function connect(config: KubeConfig, { allowH2 = true }: ConnectOptions = {}): Connection {
  const cluster = config.getCurrentCluster();
  if (!cluster) throw new Error('the kubeconfig names no current cluster');
  let current: Promise<Material> | undefined;
  let pool: { readonly digest: string; readonly agent: Agent } | undefined;
  let readAt = 0;

  async function refresh(): Promise<Material> {
    readAt = performance.now();
    const material = await readMaterial(config);
    if (pool?.digest !== material.digest) {
      // Running requests keep the old pool until they end.
      void pool?.agent.close();
      pool = {
        digest: material.digest,
        agent: new Agent({ connect: material.tls, keepAliveTimeout: 30_000, allowH2 }),
      };
    }
    return material;
  }

  return {
    server: cluster.server.replace(/\/$/, ''),
    async prepare() {
      if (!current || performance.now() - readAt > REFRESH_MS) {
        current = refresh();
        current.catch(() => {
          current = undefined;
        });
      }
      const { headers } = await current;
      if (!pool) throw new Error('no connection pool');
      return { dispatcher: pool.agent, headers };
    },
    async close() {
      await pool?.agent.destroy();
    },
  };
}

interface Material {
  readonly headers: Readonly<Record<string, string>>;
  readonly tls: Agent.Options['connect'] & object;
  readonly digest: string;
}

async function readMaterial(config: KubeConfig): Promise<Material> {
  const options: RequestOptions = {};
  await config.applyToHTTPSOptions(options);
  const { ca, cert, key, servername, rejectUnauthorized, auth } = options;
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(options.headers ?? {})) headers[name] = String(value);
  if (auth) headers['Authorization'] = `Basic ${Buffer.from(auth).toString('base64')}`;
  const tls = {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(servername === undefined ? {} : { servername }),
    ...(rejectUnauthorized === undefined ? {} : { rejectUnauthorized }),
  };
  const digest = createHash('sha256')
    .update([ca, cert, key, servername, rejectUnauthorized].map(String).join('\0'))
    .digest('hex');
  return { headers, tls, digest };
}
