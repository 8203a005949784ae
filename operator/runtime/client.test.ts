import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { KubeConfig } from '@kubernetes/client-node';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { apiClient } from './client.ts';
import { connect } from './connection.ts';
import { ApiError, TransportError } from './errors.ts';

const open: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of open.splice(0)) await close();
});

/** A client of a server that does as the test says. */
async function clientOf(answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  const config = new KubeConfig();
  const cluster = { name: 'fake', server: `http://127.0.0.1:${port}`, skipTLSVerify: true };
  config.loadFromClusterAndUser(cluster, { name: 'somebody', token: 'a token' });
  const connection = connect(config);
  open.push(async () => {
    await connection.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const observed: string[] = [];
  const client = apiClient(connection, (method, code) => observed.push(`${method} ${code}`));
  return { client, observed };
}

const get = { method: 'GET', path: '/things' } as const;

test('an API server with an IPv6 address is found where the kubelet says that it is', async () => {
  vi.stubEnv('KUBERNETES_SERVICE_HOST', 'fd00:10:96::1');
  vi.stubEnv('KUBERNETES_SERVICE_PORT', '443');
  const config = new KubeConfig();
  config.loadFromCluster();
  vi.unstubAllEnvs();
  expect(connect(config).server).toBe('https://[fd00:10:96::1]:443');
});

describe('a call', () => {
  test('sends the credential, the query and the body', async () => {
    let seen: unknown;
    const { client, observed } = await clientOf(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const { authorization, 'content-type': type } = request.headers;
      seen = { url: request.url, authorization, type, body: Buffer.concat(chunks).toString() };
      response.end('{"done":true}');
    });
    const call = {
      method: 'PATCH',
      path: '/things/a',
      query: { force: 'true' },
      contentType: 'application/apply-patch+yaml',
    } as const;
    expect(await client.call({ ...call, body: { a: 1 } })).toEqual({ done: true });
    expect(seen).toEqual({
      url: '/things/a?force=true',
      authorization: 'Bearer a token',
      type: 'application/apply-patch+yaml',
      body: '{"a":1}',
    });
    expect(observed).toEqual(['PATCH 200']);
  });

  test('that is refused rejects with the message of the server', async () => {
    const { client } = await clientOf((_, response) => {
      response.writeHead(429, { 'retry-after': '3' });
      response.end(JSON.stringify({ kind: 'Status', reason: 'TooManyRequests', message: 'slow down' }));
    });
    const error = await client.call(get).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ status: 429, reason: 'TooManyRequests', retryAfterMs: 3000 });
    expect(String(error)).toContain('slow down');
  });

  test.each([
    ['1', 1_000],
    ['3600', 30_000],
    ['4000000', 30_000],
    ['1e999', 30_000],
    ['Fri, 31 Dec 2100 23:59:59 GMT', undefined],
    ['-1', undefined],
  ])('does not wait long for a proxy that says to retry after %s', async (said, retryAfterMs) => {
    const { client } = await clientOf((_, response) => {
      response.writeHead(503, { 'retry-after': said });
      response.end('maintenance');
    });
    const error = await client.call(get).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ status: 503, retryAfterMs });
  });

  test.each<[string, (response: ServerResponse) => void]>([
    ['nothing', (response) => void response.destroy()],
    [
      'half an answer',
      (response) => {
        response.writeHead(200, { 'content-length': '100' });
        response.write('{"a":');
        setImmediate(() => response.destroy());
      },
    ],
    ['something that is not JSON', (response) => void response.end('<html>')],
  ])('that is answered with %s counts as unanswered', async (_, answer) => {
    const { client } = await clientOf((__, response) => answer(response));
    await expect(client.call(get)).rejects.toBeInstanceOf(TransportError);
  });

  test('that is not answered at all ends at its deadline', async () => {
    const { client, observed } = await clientOf(() => {});
    await expect(client.call({ ...get, timeoutMs: 50 })).rejects.toBeInstanceOf(TransportError);
    expect(observed).toEqual(['GET <error>']);
  });
});

describe('a watch', () => {
  const lines = async (client: Awaited<ReturnType<typeof clientOf>>['client'], inactivityMs = 30_000) => {
    const seen: string[] = [];
    const run = async () => {
      for await (const line of await client.lines({ ...get, inactivityMs })) seen.push(line);
    };
    return { seen, error: await run().catch((thrown: unknown) => thrown) };
  };

  test('yields whole lines, however they were split into packets', async () => {
    const { client } = await clientOf((_, response) => {
      const text = Buffer.from('{"a":"ü"}\n{"b":2}\n');
      response.write(text.subarray(0, 7));
      setImmediate(() => response.end(text.subarray(7)));
    });
    expect(await lines(client)).toEqual({ seen: ['{"a":"ü"}', '{"b":2}'], error: undefined });
  });

  test('that ends inside a line ends with an error, and without that line', async () => {
    const { client } = await clientOf((_, response) => void response.end('{"a":1}\n{"b":'));
    const { seen, error } = await lines(client);
    expect(seen).toEqual(['{"a":1}']);
    expect(error).toBeInstanceOf(TransportError);
  });

  test('without any data is ended', async () => {
    const { client } = await clientOf((_, response) => void response.write('{"a":1}\n'));
    const { seen, error } = await lines(client, 100);
    expect(seen).toEqual(['{"a":1}']);
    expect(error).toBeInstanceOf(TransportError);
  });
});
