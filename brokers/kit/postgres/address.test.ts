import { inspect } from 'node:util';
import { expect, it } from 'vitest';
import { parseServerUrl } from './address.ts';

const noFile = () => {
  throw new Error('reads no file');
};

it('reads all that a URL says', () => {
  const address = parseServerUrl(
    'postgresql://space_broker:p%40ss@[::1]:5433/space_registry\n',
    'URL_FILE',
    noFile,
  );
  expect(address).toMatchObject({
    host: '::1',
    port: 5433,
    database: 'space_registry',
    user: 'space_broker',
    ssl: false,
  });
  expect(address.password.reveal()).toBe('p@ss');
  expect(inspect(address)).not.toContain('p@ss');
});

it('verifies whom it speaks to, with the authority that is named', () => {
  const url = 'postgres://a:b@db.example/r?sslmode=verify-full&sslrootcert=/ca.pem';
  let reads = 0;
  const { ssl } = parseServerUrl(url, 'URL_FILE', (path) => `${path} read ${++reads} times`);
  const authority = () => (ssl === false ? undefined : ssl.ca);
  expect([authority(), authority()]).toEqual(['/ca.pem read 2 times', '/ca.pem read 3 times']);
  const system = parseServerUrl('postgres://a:b@db.example/r?sslmode=verify-full', 'URL_FILE', noFile).ssl;
  expect(system).toEqual({ rejectUnauthorized: true });
  expect(() => parseServerUrl(url, 'URL_FILE', noFile)).toThrow(/sslrootcert cannot be read/);
});

it.each([
  '',
  'nonsense',
  'mysql://a:b@h/d',
  'postgresql://h/d',
  'postgresql://a:b@h/',
  'postgresql://a:canary@h/d?sslmode=require',
])('refuses %j without quoting it', (url) => {
  expect(() => parseServerUrl(url, 'URL_FILE', noFile)).toThrow(
    expect.objectContaining({ message: expect.not.stringContaining('canary') }),
  );
});
