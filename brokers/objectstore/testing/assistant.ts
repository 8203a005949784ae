import { randomUUID } from 'node:crypto';
import type { TestBroker } from './broker.ts';

/** An Assistant as it speaks to the data listener. */
export interface Assistant {
  readonly token: string;
  call(method: string, path: string, options?: CallOptions): Promise<Answer>;
  put(key: string, body: string | Buffer, headers?: Record<string, string>): Promise<Answer>;
  get(key: string, headers?: Record<string, string>): Promise<Answer>;
  post(path: string, body: unknown): Promise<Answer>;
}

interface CallOptions {
  readonly headers?: Record<string, string>;
  readonly body?: string | Buffer;
}

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into whatever came back
  readonly json: any;
}

export function assistant(base: string, token: string): Assistant {
  const call: Assistant['call'] = async (method, path, { headers = {}, body } = {}) => {
    const response = await fetch(`${base}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, ...headers },
      ...(body === undefined ? {} : { body: body as never }),
    });
    const text = await response.text();
    const isJson = response.headers.get('content-type') === 'application/json' && text !== '';
    return {
      status: response.status,
      headers: response.headers,
      text,
      json: isJson ? JSON.parse(text) : undefined,
    };
  };
  return {
    token,
    call,
    put: (key, body, headers = {}) => call('PUT', `/v1/objects/data/${key}`, { body, headers }),
    get: (key, headers = {}) => call('GET', `/v1/objects/data/${key}`, { headers }),
    post: (path, body) =>
      call('POST', path, { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  };
}

/** A new Capsule with one Assistant. */
export async function newAssistant(
  broker: TestBroker,
  more: { readonly capsule?: string; readonly app?: string; readonly quota?: number } = {},
): Promise<Assistant> {
  const { capsule = `c${randomUUID().slice(0, 8)}`, app = 'app', quota } = more;
  const owner = await broker.capsule(capsule, quota === undefined ? undefined : { quota_bytes: quota });
  return assistant(broker.dataUrl, await broker.workload(owner, capsule, app));
}
