import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { ensureBuilt } from '../../../e2e/cluster/builds/go.ts';
import { MINIO_BUILD } from '../../../e2e/cluster/builds/pins.ts';
import { freePort } from '../../ports.ts';
import type { Product } from './node.ts';
import { type Node, nodeOf } from './node.ts';

/** Each object is stored in four shards, any two of which suffice to read it; a write is answered when three nodes have it. */
export const MINIO: Product = {
  title: 'MinIO of 2026-02-12, four nodes, erasure-coded 2 + 2',
  count: 4,
  health: '/minio/health/ready',
  prepare: async ({ directory, count, key }) => {
    const program = join(await ensureBuilt(MINIO_BUILD, { log: join(directory, 'build.log') }), 'minio');
    const ports: number[] = [];
    while (ports.length < count) ports.push(await freePort());
    const drives = ports.map((port, i) => ({ port, path: join(directory, `drive-${i + 1}`) }));
    const all = drives.map(({ port, path }) => `http://127.0.0.1:${port}${path}`);
    const nodes = drives.map(({ port, path }, i): Node => {
      mkdirSync(path);
      const cwd = join(directory, `home-${i + 1}`);
      mkdirSync(cwd);
      return nodeOf({
        ...{ name: `node ${i + 1}`, port, program, cwd, log: join(directory, `node-${i + 1}.log`) },
        args: ['server', '--quiet', '--address', `127.0.0.1:${port}`, ...all],
        env: {
          MINIO_ROOT_USER: key.id,
          MINIO_ROOT_PASSWORD: key.secret,
          MINIO_BROWSER: 'off',
          MINIO_UPDATE: 'off',
          // Only with this, MinIO accepts directories instead of separate drives.
          MINIO_CI_CD: '1',
          // In a container, MinIO ignores loopback addresses, so it needs to know which node it is.
          _MINIO_SERVER_LOCAL: `127.0.0.1:${port}`,
        },
      });
    });
    return { nodes, close: async () => undefined };
  },
};
