import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parse } from 'yaml';
import { postgresPrograms } from '../../testing/postgres/binaries.ts';
import { CHART } from './chart.ts';
import { type Helm, set, startHelm } from './testing/rendered.ts';

let helm: Helm;
beforeAll(async () => {
  helm = await startHelm();
}, 600_000);
afterAll(() => helm?.close());

const chosen = (...extensions: readonly string[]) =>
  helm.template(...set(`postgres.extensions={${extensions.join(',')}}`));

/** The extensions that PostgreSQL itself calls trusted, without the languages, which the image does not have. */
async function trusted(): Promise<readonly string[]> {
  const folder = join(dirname(postgresPrograms('17')), 'share/postgresql/extension');
  const files = (await readdir(folder)).filter((file) => file.endsWith('.control'));
  const texts = await Promise.all(files.map((file) => readFile(join(folder, file), 'utf8')));
  return files
    .filter((_, index) => /^trusted *= *true/m.test(texts[index] ?? ''))
    .map((file) => file.replace('.control', ''))
    .filter((name) => !/pl(perl|pgsql|tcl)$/.test(name));
}

it('the chart accepts every trusted extension of PostgreSQL, and vectors', async () => {
  const all = [...(await trusted()), 'vector'];
  expect(all.length).toBeGreaterThan(15);
  const { code, stderr } = await chosen(...all);
  expect([code, stderr]).toEqual([0, '']);
  const { postgres } = parse(await readFile(join(CHART, 'values.yaml'), 'utf8'));
  expect(postgres.extensions.filter((name: string) => !all.includes(name))).toEqual([]);
});

it.each(['dblink', 'postgres_fdw', 'file_fdw', 'plpython3u', 'plpgsql', 'pg_trmg', 'pageinspect'])(
  'the chart refuses the extension %s, with which the server would not start',
  async (name) => {
    const { code, stderr } = await chosen('citext', name);
    expect(code).not.toBe(0);
    expect(stderr).toContain('/postgres/extensions/1');
  },
);
