import { readFileSync } from 'node:fs';
import { request } from 'node:https';

export interface Api {
  readonly port: number;
  readonly pki: string;
}

/** The API server refused, or its answer cannot be used. */
class ApiRefused extends Error {
  override readonly name = 'ApiRefused';
}

/** Sends one request to the API server as the cluster's administrator; returns the parsed JSON. */
export function callApi(
  { port, pki }: Api,
  path: string,
  options: { method?: string; body?: unknown; contentType?: string } = {},
): Promise<unknown> {
  const body = options.body === undefined ? undefined : JSON.stringify(options.body);
  return new Promise((resolve, reject) => {
    const call = request(
      {
        host: '127.0.0.1',
        port,
        path,
        method: options.method ?? 'GET',
        ca: readFileSync(`${pki}/ca.crt`),
        cert: readFileSync(`${pki}/admin.crt`),
        key: readFileSync(`${pki}/admin.key`),
        agent: false,
        timeout: 5_000,
        headers: {
          accept: 'application/json',
          ...(body === undefined ? {} : { 'content-type': options.contentType ?? 'application/json' }),
        },
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => {
          const text = String(Buffer.concat(chunks));
          const status = response.statusCode ?? 0;
          if (status >= 300) reject(new ApiRefused(`${path}: ${status} ${text.slice(0, 200)}`));
          else resolve(path.startsWith('/readyz') ? text : JSON.parse(text));
        });
      },
    );
    call.on('timeout', () => call.destroy(new ApiRefused(`${path}: no answer within 5 s`)));
    call.on('error', reject);
    call.end(body);
  });
}
