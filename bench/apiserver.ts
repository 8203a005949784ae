import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { Agent, request } from 'node:https';
import { createInterface } from 'node:readline';
import { KubeConfig } from '@kubernetes/client-node';

/** An event of a watch, with the time (monotonic, ms) at which it arrived here. */
export interface WatchEvent {
  readonly at: number;
  readonly type: string;
  // biome-ignore lint/suspicious/noExplicitAny: a benchmark reads single fields of many kinds
  readonly object: any;
}

/** The few requests that a measurement needs, over kept-alive connections, so that no start of a process is measured. */
export interface ApiServer {
  apply(path: string, object: object): Promise<void>;
  remove(path: string): Promise<void>;
  /** Undefined if there is no such object. */
  get(path: string): Promise<WatchEvent['object'] | undefined>;
  /** Calls `see` for every event until stopped; resolves once the stream is open. */
  watch(path: string, see: (seen: WatchEvent) => void): Promise<{ stop(): void }>;
  close(): void;
}

export async function connectApiServer(kubeconfigPath: string): Promise<ApiServer> {
  const config = new KubeConfig();
  config.loadFromString(await readFile(kubeconfigPath, 'utf8'));
  const server = config.getCurrentCluster()?.server;
  if (server === undefined) throw new Error(`${kubeconfigPath} names no cluster`);
  const agent = new Agent({ keepAlive: true });
  const options = { agent, headers: {} as Record<string, string> };
  await config.applyToHTTPSOptions(options);
  options.agent = new Agent({ ...options, keepAlive: true });

  async function call(method: string, path: string, body?: object) {
    const headers =
      body === undefined
        ? options.headers
        : { ...options.headers, 'content-type': 'application/apply-patch+yaml' };
    const outgoing = request(new URL(path, server), { ...options, method, headers });
    outgoing.end(body === undefined ? undefined : JSON.stringify(body));
    const [response] = await once(outgoing, 'response');
    return response;
  }

  async function read(method: string, path: string, body?: object) {
    const response = await call(method, path, body);
    let text = '';
    for await (const chunk of response.setEncoding('utf8')) text += chunk;
    if (response.statusCode === 404) return undefined;
    if (response.statusCode >= 300) throw new Error(`${method} ${path}: ${response.statusCode} ${text}`);
    return JSON.parse(text);
  }

  return {
    async apply(path, object) {
      if ((await read('PATCH', `${path}?fieldManager=bench&force=true`, object)) === undefined) {
        throw new Error(`${path}: not found`);
      }
    },
    async remove(path) {
      await read('DELETE', path);
    },
    get: (path) => read('GET', path),
    async watch(path, see) {
      const response = await call('GET', `${path}${path.includes('?') ? '&' : '?'}watch=true`);
      if (response.statusCode !== 200) throw new Error(`watch ${path}: ${response.statusCode}`);
      createInterface({ input: response }).on('line', (line) =>
        see({ at: performance.now(), ...JSON.parse(line) }),
      );
      return { stop: () => response.destroy() };
    },
    close: () => options.agent.destroy(),
  };
}
