import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { IncomingMessage, RequestListener } from 'node:http';
import { createServer, type Server } from 'node:https';
import { createServer as createTcpServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Answer, addressGuard, dialler, portOf } from '@space/broker-kit';
import type { Fields } from '@space/contracts/objectstore';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Authority, makeAuthority } from '../../../../testing/certificates.ts';
import { createVerify } from './verify.ts';

const HOST = 's3.tenant.example';
const TRUSTED: Answer = { address: '127.0.0.1', ttl: 60, trusted: true };

let directory: string;
let authority: Authority;
let server: Server;
let answer: RequestListener;
let requests: string[];
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'space-verify-'));
  authority = makeAuthority(directory, 'ca');
  const { cert, key } = authority.sign('s3', [`DNS:${HOST}`]);
  server = createServer({ cert: readFileSync(cert), key: readFileSync(key) }, (request, response) => {
    requests.push(`${request.method} ${request.url}`);
    answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
beforeEach(() => {
  requests = [];
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
  rmSync(directory, { recursive: true });
});

const fields = (change: Partial<Fields> = {}): Fields => ({
  endpoint: `https://${HOST}:${portOf(server)}`,
  region: 'us-east-1',
  bucket: 'tenant',
  addressing: 'path',
  'access-key-id': 'AKIDEXAMPLE',
  'secret-access-key': 'secret-access-key',
  ...change,
});

function verifier(
  resolve: (host: string) => Promise<readonly Answer[]>,
  options: { ca?: string | undefined; timeoutMs?: number; denied?: string[] } = {},
) {
  const { timeoutMs = 60_000, denied = [] } = options;
  const ca = 'ca' in options ? options.ca : readFileSync(authority.cert, 'utf8');
  return createVerify({ dialler: dialler({ resolve, guard: addressGuard({ denied }) }), ca, timeoutMs });
}

/** Without one, nothing was stored. */
const ETAG = { etag: '"0123456789abcdef0123456789abcdef"' };

const answers = (status: number, body: string, headers: Record<string, string> = {}): RequestListener => {
  return (_request, response) => void response.writeHead(status, headers).end(body);
};
const s3Error = (code: string) =>
  `<?xml version="1.0"?><Error><Code>${code}</Code><Message>no</Message></Error>`;

describe('an endpoint on an address that is not for tenants', () => {
  it.each<[string, string[], string[]?]>([
    ['loopback', ['127.0.0.1']],
    ['the metadata service', ['169.254.169.254']],
    ['a Service of the cluster', ['10.96.0.1']],
    ['carrier-grade NAT', ['100.64.0.1']],
    ['IPv6 loopback', ['::1']],
    ['IPv4 mapped', ['::ffff:127.0.0.1']],
    ['IPv4 compatible', ['::7f00:1']],
    ['IPv4 translated', ['::ffff:0:7f00:1']],
    ['NAT64', ['64:ff9b::7f00:1']],
    ['NAT64, local', ['64:ff9b:1::7f00:1']],
    ['6to4', ['2002:7f00:1::']],
    ['Teredo', ['2001:0:7f00:1::80ff:fffe']],
    ['a unique local address', ['fd00::1']],
    ['one of several', ['192.0.2.1', '8.8.8.8', '127.0.0.1']],
    ['pods with public addresses, as the administrator said', ['44.1.2.3'], ['44.0.0.0/8']],
  ])('%s: unreachable, and nothing is sent', async (_, addresses, denied = []) => {
    let connections = 0;
    const victim = createTcpServer(() => {
      connections += 1;
    });
    await new Promise<void>((resolve) => victim.listen(0, '127.0.0.1', resolve));
    const endpoint = `https://${HOST}:${portOf(victim)}`;
    const verify = verifier(async () => addresses.map((address) => ({ address, ttl: 0 })), { denied });
    expect(await verify(fields({ endpoint }))).toBe('unreachable');
    expect(connections).toBe(0);
    await new Promise((resolve) => victim.close(resolve));
  });

  it('that it changes to between two requests: each connection is checked again', async () => {
    let asked = 0;
    answer = answers(200, '<ListBucketResult></ListBucketResult>', { connection: 'close' });
    const verify = verifier(async () => {
      asked += 1;
      return asked === 1 ? [TRUSTED] : [{ address: '127.0.0.1', ttl: 0 }];
    });
    expect(await verify(fields())).toBe('unreachable');
    expect(requests).toHaveLength(1);
    expect(asked).toBeGreaterThan(1);
  });
});

describe('an endpoint', () => {
  const verify = (options = {}) => verifier(async () => [TRUSTED], options);

  it.each<[string, RequestListener, string]>([
    ['with an unknown key', answers(403, s3Error('InvalidAccessKeyId')), 'auth'],
    ['with a wrong signature', answers(403, s3Error('SignatureDoesNotMatch')), 'auth'],
    ['of another region', answers(400, s3Error('AuthorizationHeaderMalformed')), 'auth'],
    ['that forbids', answers(403, s3Error('AccessDenied')), 'permission'],
    ['without the bucket', answers(404, s3Error('NoSuchBucket')), 'bucket'],
    ['that redirects', answers(301, '', { location: 'https://169.254.169.254/' }), 'bucket'],
    ['that is a web site', answers(200, '<!doctype html><title>hello</title>'), 'bucket'],
    ['that answers nothing', answers(200, ''), 'bucket'],
    [
      'with a document type',
      answers(200, '<!DOCTYPE x [<!ENTITY a "b">]><ListBucketResult>&a;</ListBucketResult>'),
      'bucket',
    ],
    ['that is broken', answers(500, 'secret stack trace'), 'unreachable'],
    ['that hangs up', (request) => request.socket.destroy(), 'unreachable'],
  ])('%s is reported as a fixed word, and no redirect is followed', async (_, listener, check) => {
    answer = listener;
    expect(await verify()(fields())).toBe(check);
    expect(new Set(requests.map((line) => line.split(' ')[1]?.split('?')[0]))).toEqual(new Set(['/tenant']));
  });

  it.each<[string, RequestListener]>([
    ['never answers', () => undefined],
    [
      'answers a byte at a time',
      (_request, response) => {
        response.writeHead(200);
        const timer = setInterval(() => response.write(' '), 20);
        response.on('close', () => clearInterval(timer));
      },
    ],
  ])('that %s is abandoned after the time limit', async (_, listener) => {
    answer = listener;
    expect(await verify({ timeoutMs: 300 })(fields())).toBe('timeout');
  });

  it('that stalls after the put: the object is still deleted', async () => {
    answer = (request, response) => {
      if (request.method === 'HEAD') return;
      const body = request.method === 'GET' ? '<ListBucketResult></ListBucketResult>' : '';
      answers(200, body, ETAG)(request, response);
    };
    expect(await verify({ timeoutMs: 12_000 })(fields())).toBe('timeout');
    expect(requests.map((line) => line.split(' ')[0])).toEqual(['GET', 'PUT', 'HEAD', 'DELETE']);
  });

  it('with an endless answer is abandoned', async () => {
    answer = (_request, response) => {
      response.writeHead(200);
      const fill = () => {
        while (!response.destroyed && response.write('x'.repeat(65_536)));
      };
      response.on('drain', fill);
      fill();
    };
    expect(['bucket', 'timeout', 'unreachable']).toContain(await verify()(fields()));
  });

  it('that returns another content is refused, and the object is deleted', async () => {
    answer = (request, response) => {
      if (request.method === 'GET' && request.url?.includes('list-type'))
        return answers(200, '<ListBucketResult></ListBucketResult>')(request, response);
      return answers(
        request.method === 'DELETE' ? 204 : 200,
        request.method === 'GET' ? 'something else!!' : '',
        ETAG,
      )(request, response);
    };
    expect(await verify()(fields())).toBe('bucket');
    expect(requests.map((line) => line.split(' ')[0])).toEqual(['GET', 'PUT', 'HEAD', 'GET', 'DELETE']);
    expect(new Set(requests.slice(1).map((line) => line.split(' ')[1]))).toHaveProperty('size', 1);
  });

  describe('that is like S3', () => {
    /** One object, kept as it came unless the coding is taken off; answers what is asked for, or as `not` says. */
    const like =
      (not: (request: IncomingMessage) => number | undefined, decode = true): RequestListener =>
      (request, response) => {
        const status = not(request);
        if (status !== undefined) return answers(status, s3Error('NotImplemented'))(request, response);
        const { method, url = '' } = request;
        const chunks: Buffer[] = [];
        request.on('data', (chunk: Buffer) => chunks.push(chunk));
        request.on('end', () => {
          const sent = Buffer.concat(chunks).toString('latin1');
          const coded = String(request.headers['x-amz-content-sha256']).startsWith('STREAMING-');
          if (method === 'PUT')
            kept = Buffer.from(
              coded && decode ? sent.slice(sent.indexOf('\r\n') + 2).slice(0, 16) : sent,
              'latin1',
            );
          const body = url.includes('list-type')
            ? '<ListBucketResult></ListBucketResult>'
            : method === 'POST' && url.includes('uploads=')
              ? '<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>'
              : method === 'POST'
                ? '<CompleteMultipartUploadResult><ETag>"e"</ETag></CompleteMultipartUploadResult>'
                : method === 'GET'
                  ? kept
                  : '';
          response.writeHead(method === 'DELETE' ? 204 : 200, { etag: '"e"' }).end(body);
        });
      };
    let kept: Buffer;
    const steps = () =>
      requests.map((line) => `${line.split(' ')[0]}${/[?&](uploads?|uploadId)=/.exec(line)?.[1] ?? ''}`);
    const ALL = 'GET PUT HEAD GET POSTuploads PUTuploadId POSTuploadId GET DELETE';

    it('passes if it supports everything that Assistants use, in the encoding of the data plane and in parts', async () => {
      answer = like(() => undefined);
      expect(await verify()(fields())).toBeUndefined();
      expect(steps().join(' ')).toBe(ALL);
    });

    it.each<[string, RequestListener]>([
      ['too busy for a moment', answers(503, s3Error('SlowDown'))],
      [
        'removing the directory of all verifications with another one',
        answers(409, s3Error('ExistingObjectIsDirectory')),
      ],
    ])('and %s is asked again, from the beginning', async (_, not) => {
      let left = 2;
      const well = like(() => undefined);
      answer = (request, response) =>
        request.method === 'PUT' && left-- > 0 ? not(request, response) : well(request, response);
      expect(await verify()(fields())).toBeUndefined();
      expect(steps().join(' ')).toBe(`GET PUT DELETE GET PUT DELETE ${ALL}`);
    });

    it('and too busy each time is unreachable', async () => {
      answer = like(() => 503);
      expect(await verify()(fields())).toBe('unreachable');
      expect(steps().join(' ')).toBe('GET GET GET');
    });

    it.each<[string, RequestListener, string]>([
      [
        'does not know the coding',
        like(({ headers }) =>
          String(headers['x-amz-content-sha256']).startsWith('STREAMING-') ? 501 : undefined,
        ),
        'GET PUT DELETE',
      ],
      ['keeps the coding for the object', like(() => undefined, false), 'GET PUT HEAD GET DELETE'],
      [
        'has no uploads in parts',
        like(({ method }) => (method === 'POST' ? 501 : undefined)),
        'GET PUT HEAD GET POSTuploads DELETE',
      ],
      [
        'refuses parts',
        like(({ method, url }) => (method === 'PUT' && url?.includes('partNumber') ? 400 : undefined)),
        'GET PUT HEAD GET POSTuploads PUTuploadId DELETEuploadId DELETE',
      ],
    ])('and %s: refused, and nothing is left there', async (_, listener, expected) => {
      answer = listener;
      expect(await verify()(fields())).toBe('bucket');
      expect(steps().join(' ')).toBe(expected);
    });
  });

  it('with an untrusted certificate, or one for another name, is sent no request', async () => {
    answer = answers(200, '');
    expect(await verify({ ca: undefined })(fields())).toBe('tls');
    expect(await verify()(fields({ endpoint: `https://other.tenant.example:${portOf(server)}` }))).toBe(
      'tls',
    );
    expect(requests).toEqual([]);
  });

  it('that accepts and stays silent is abandoned, whenever the time ends', async () => {
    const mute = createTcpServer((socket) => socket.resume().on('error', () => undefined));
    await new Promise<void>((resolve) => mute.listen(0, '127.0.0.1', resolve));
    const endpoint = `https://${HOST}:${portOf(mute)}`;
    const tried = Array.from({ length: 20 }, (_, i) =>
      verify({ timeoutMs: 20 + i * 10 })(fields({ endpoint })),
    );
    expect(new Set(await Promise.all(tried))).toEqual(new Set(['timeout']));
    await new Promise((resolve) => mute.close(resolve));
  });

  it('without TLS, or that does not exist', async () => {
    const plain = createTcpServer((socket) => {
      socket.on('error', () => undefined);
      socket.resume().end('HTTP/1.1 200 OK\r\n\r\n');
    });
    await new Promise<void>((resolve) => plain.listen(0, '127.0.0.1', resolve));
    const endpoint = `https://${HOST}:${portOf(plain)}`;
    expect(await verify()(fields({ endpoint }))).toBe('tls');
    await new Promise((resolve) => plain.close(resolve));
    expect(await verify()(fields({ endpoint }))).toBe('unreachable');
  });
});
