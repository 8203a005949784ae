import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { connectionsOf, doorOf } from './settings.ts';

const IMAGE = join(import.meta.dirname, '../../brokers/db/postgres');

it('the image, the chart and a developer’s server have as many connections where nothing else is said', () => {
  const values = parse(readFileSync(join(import.meta.dirname, '../../charts/space/values.yaml'), 'utf8'));
  expect(connectionsOf({ asInImage: true })).toBe(String(values.postgres.maxConnections));
  for (const file of readdirSync(IMAGE).filter((name) => /\.(sh|pl)$/.test(name)))
    expect(readFileSync(join(IMAGE, file), 'utf8')).not.toMatch(/MAX_CONNECTIONS(?::-|\} \/\/ )\d/);
});

it('a developer’s server has the door of the image, but for its superuser', () => {
  const lines = (text: string) => text.split('\n').filter((line) => /^(?:local|host)/.test(line));
  const image = lines(readFileSync(join(IMAGE, 'pg_hba.conf'), 'utf8'));
  const here = lines(doorOf({ asInImage: true }));
  expect(here).toHaveLength(image.length);
  expect(here.filter((line, i) => line !== image[i])).toEqual([
    expect.stringMatching(/^host +all +postgres +all +scram-sha-256$/),
  ]);
});
