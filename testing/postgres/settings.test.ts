import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { connectionsOf, hbaOf } from './settings.ts';

const IMAGE = join(import.meta.dirname, '../../brokers/db/postgres');

it('the image, the chart and a developer’s server have the same default number of connections', () => {
  const values = parse(readFileSync(join(import.meta.dirname, '../../charts/space/values.yaml'), 'utf8'));
  expect(connectionsOf({ asInImage: true })).toBe(String(values.postgres.maxConnections));
  for (const file of readdirSync(IMAGE).filter((name) => /\.(sh|pl)$/.test(name)))
    expect(readFileSync(join(IMAGE, file), 'utf8')).not.toMatch(/MAX_CONNECTIONS(?::-|\} \/\/ )\d/);
});

const lines = (text: string) => text.split('\n').filter((line) => /^(?:local|host)/.test(line));
const doorIn = (file: string) => lines(readFileSync(join(IMAGE, file), 'utf8'));

it('with a certificate pg_hba.conf of the image is the same, except that plain text is refused', () => {
  const inWords = (line: string) => line.split(/ +/);
  expect(doorIn('pg_hba.tls.conf').map(inWords)).toEqual(
    doorIn('pg_hba.conf').map((line) => inWords(line.replace(/^host /, 'hostssl '))),
  );
});

it('a developer’s server has pg_hba.conf of the image, except for its superuser', () => {
  const image = doorIn('pg_hba.conf');
  const here = lines(hbaOf({ asInImage: true }));
  expect(here).toHaveLength(image.length);
  expect(here.filter((line, i) => line !== image[i])).toEqual([
    expect.stringMatching(/^host +all +postgres +all +scram-sha-256$/),
  ]);
});
