import { mkdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { build } from 'esbuild';
import type { ImageSource } from '../../e2e/cluster/index.ts';

const LOAD = join(import.meta.dirname, 'load');
const CONTEXT = resolve(import.meta.dirname, '../../dist/zero-downtime-load');

/** The image of the Assistant that sends the load. */
export const LOAD_IMAGE: ImageSource = {
  name: 'space/zero-downtime-load',
  dockerfile: join(LOAD, 'Dockerfile'),
  context: CONTEXT,
  async buildContext() {
    await mkdir(CONTEXT, { recursive: true });
    await build({
      entryPoints: [join(LOAD, 'main.ts')],
      outfile: join(CONTEXT, 'main.mjs'),
      ...{ bundle: true, platform: 'node', format: 'esm', target: 'node26' },
      // pg tries to load its native variant, which is not installed.
      external: ['pg-native', 'cloudflare:sockets'],
      banner: {
        js: "import { createRequire as require_ } from 'node:module'; const require = require_(import.meta.url);",
      },
      logLevel: 'silent',
    });
  },
};
