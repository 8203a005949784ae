/** What a push returns, with a registry of the test's own: the digest that nodes will request. */
import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { onPath } from '../tools.ts';
import { buildah } from './buildah.ts';

const sha256 = (bytes: Buffer) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;

/** The part of the distribution protocol that a push uses. */
async function startRegistry() {
  const blobs = new Set<string>();
  const manifests = new Map<string, string>();
  const uploads = new Map<string, Buffer>();
  const server = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://registry');
    const [, kind = '', id = ''] = /\/(blobs\/uploads|blobs|manifests)\/([^/]*)$/.exec(pathname) ?? [];
    const body = await bodyOf(request);
    const answer = (status: number, headers: Record<string, string> = {}) =>
      response.writeHead(status, headers).end();
    if (pathname === '/v2/') return answer(200);
    if (kind === 'blobs' && request.method === 'HEAD') return answer(blobs.has(id) ? 200 : 404);
    if (kind === 'blobs/uploads') {
      const upload = id === '' ? String(uploads.size) : id;
      const all = Buffer.concat([uploads.get(upload) ?? Buffer.alloc(0), body]);
      uploads.set(upload, all);
      const digest = searchParams.get('digest');
      if (request.method !== 'PUT') {
        const location = id === '' ? `${pathname}${upload}` : pathname;
        return answer(202, { location, range: `0-${Math.max(0, all.length - 1)}` });
      }
      if (digest !== sha256(all)) return answer(400);
      blobs.add(digest);
      return answer(201, { 'docker-content-digest': digest });
    }
    if (kind === 'manifests' && request.method === 'PUT') {
      manifests.set(id, sha256(body));
      return answer(201, { 'docker-content-digest': sha256(body) });
    }
    return answer(404);
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { host, manifests, blobs, stop: () => new Promise((closed) => server.close(closed)) };
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

it.skipIf(onPath('buildah') === undefined || process.getuid?.() !== 0)(
  'a pushed image is named by the digest of what the registry holds (needs buildah and root)',
  async () => {
    const directory = await mkdtemp(join(tmpdir(), 'space-push-'));
    const registry = await startRegistry();
    try {
      const configuration = join(directory, 'registries.conf');
      // The registry of this test is on loopback, without TLS.
      await writeFile(configuration, `[[registry]]\nlocation = "${registry.host}"\ninsecure = true\n`);
      process.env['CONTAINERS_REGISTRIES_CONF'] = configuration;
      const tool = buildah(join(directory, 'images'), join(directory, 'log'));
      await writeFile(join(directory, 'Dockerfile'), 'FROM scratch\nCOPY one /one\n');
      await writeFile(join(directory, 'one'), 'one file\n');
      await tool.build({
        dockerfile: join(directory, 'Dockerfile'),
        context: directory,
        references: ['space/one:1'],
      });
      const digest = await tool.push('space/one:1', `${registry.host}/space/one:1`);
      expect(digest).toMatch(/^sha256:[0-9a-f]{64}$/);
      expect(registry.manifests.get('1')).toBe(digest);
      expect(registry.blobs.size).toBeGreaterThanOrEqual(2); // its configuration and its layer
    } finally {
      delete process.env['CONTAINERS_REGISTRIES_CONF'];
      await registry.stop();
      await rm(directory, { recursive: true, force: true });
    }
  },
);
