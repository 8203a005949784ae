/** A proxy between brokers and the S3 server of the Space, which records the outcome of every anchor. */
import { Agent, request as ask, createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { portOf } from '@space/broker-kit';
import type { S3Server } from '../../../../../../testing/s3.ts';
import { type Anchor, readAnchor } from '../../anchor.ts';

export interface Anchored {
  /** Milliseconds since 1970: before it was answered, and after the rows were committed. */
  readonly at: number;
  readonly key: string;
  readonly anchor: Anchor;
}

export interface AnchorRecorder {
  readonly endpoint: string;
  /** Anchors that were written since it was asked last, in their order. */
  taken(): Anchored[];
  /** Anchors that were read. */
  readonly reads: number;
  /** A request to write waits for this, as on a slow network; it may outlive its sender. */
  delay: () => Promise<void>;
  /** Writes that wait now. */
  readonly waiting: number;
  close(): Promise<void>;
}

const ANCHOR = /\/custody\/v1\/[0-9a-f]{40}$/;

export async function recordAnchors(s3: Pick<S3Server, 'endpoint'>): Promise<AnchorRecorder> {
  const to = new URL(s3.endpoint);
  const agent = new Agent({ keepAlive: true });
  let written: Anchored[] = [];
  let [reads, waiting] = [0, 0];
  /** One after the other for each anchor, so that no reader sees one before it is recorded. */
  const turns = new Map<string, Promise<void>>();

  const pass = (request: IncomingMessage, body: Buffer, response: ServerResponse): Promise<number> =>
    new Promise((resolve) => {
      const { method, url, headers } = request;
      const onward = ask({ agent, hostname: to.hostname, port: to.port, method, path: url, headers });
      onward.on('error', () => {
        response.destroy();
        resolve(0);
      });
      onward.on('response', (answer) => {
        const chunks: Buffer[] = [];
        answer.on('data', (chunk: Buffer) => chunks.push(chunk));
        answer.on('error', () => resolve(0));
        answer.on('end', () => {
          const status = answer.statusCode ?? 500;
          if (ANCHOR.test(url ?? '')) heard(method, url ?? '', body, status);
          response.writeHead(status, answer.headers).end(Buffer.concat(chunks));
          resolve(status);
        });
      });
      onward.end(body);
    });

  const heard = (method: string | undefined, url: string, body: Buffer, status: number) => {
    if (method === 'GET') reads += 1;
    const anchor = method === 'PUT' && status === 200 ? readAnchor(body) : undefined;
    if (anchor !== undefined)
      written.push({ at: Date.now(), key: url.slice(1).replace(/^[^/]+\//, ''), anchor });
  };

  const slowly = async () => {
    waiting += 1;
    await recorder.delay();
    waiting -= 1;
  };

  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    response.on('error', () => undefined);
    request.on('error', () => undefined);
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { url = '', method } = request;
      const body = Buffer.concat(chunks);
      if (!ANCHOR.test(url)) return void pass(request, body, response);
      const before = method === 'PUT' ? slowly() : Promise.resolve();
      // A write that waits on the network does not keep others from the server.
      void before.then(() => {
        const turn = (turns.get(url) ?? Promise.resolve()).then(async () => {
          await pass(request, body, response);
        });
        turns.set(url, turn);
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const recorder: AnchorRecorder = {
    endpoint: `http://127.0.0.1:${portOf(server)}`,
    taken: () => {
      const all = written;
      written = [];
      return all;
    },
    get reads() {
      return reads;
    },
    delay: () => Promise.resolve(),
    get waiting() {
      return waiting;
    },
    close: async () => {
      server.closeAllConnections();
      agent.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return recorder;
}
