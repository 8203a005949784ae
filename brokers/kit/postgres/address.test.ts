import { rootCertificates } from 'node:tls';
import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { parseServerUrl, serverParser } from './address.ts';

const noFile = () => {
  throw new Error('reads no file');
};

it('reads all parts of a URL', () => {
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

it('verifies the server with the configured CA', () => {
  const url = 'postgres://a:b@db.example/r?sslmode=verify-full&sslrootcert=/ca.pem';
  const [one = '', other = ''] = rootCertificates;
  let file: string | undefined = one;
  const read = (path: string) => (path === '/ca.pem' && file !== undefined ? file : noFile());
  const { ssl } = parseServerUrl(url, 'URL_FILE', read);
  const authority = () => (ssl === false ? undefined : ssl.ca);
  expect(authority()).toBe(one);
  file = `# both\n${one}\n${other}`;
  expect(authority()).toBe(file);
  for (file of [undefined, '', 'no certificate', `${one}\n${other.slice(0, 400)}`, one.replace('M', '!')])
    expect(authority()).toBe(`# both\n${one}\n${other}`);
  file = other;
  expect(authority()).toBe(other);
  expect(() => parseServerUrl(url, 'URL_FILE', () => '')).toThrow(/sslrootcert holds no whole certificate/);
  const system = parseServerUrl('postgres://a:b@db.example/r?sslmode=verify-full', 'URL_FILE', noFile).ssl;
  expect(system).toEqual({ rejectUnauthorized: true });
  expect(() => parseServerUrl(url, 'URL_FILE', noFile)).toThrow(/sslrootcert cannot be read/);
});

it('says how a percent sign is written, and does not quote what it is in', () => {
  expect(() => parseServerUrl('postgresql://a:can%ary@h/d', 'URL_FILE', noFile)).toThrow(
    /^URL_FILE: a percent sign [^:]*%25$/,
  );
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

describe('of a URL and a password in a file', () => {
  const url = 'postgresql://space_broker@db.example:5433/space_registry?sslmode=verify-full';
  const parse = (given: string | undefined, text: string) =>
    serverParser({ url: given, setting: 'ADMIN_DATABASE' }, noFile)(text);

  it('builds one address, with any characters in the password', () => {
    const address = parse(url, 'p@ss/w%rd\n');
    expect(address).toMatchObject({ host: 'db.example', port: 5433, ssl: { rejectUnauthorized: true } });
    expect(address.password.reveal()).toBe('p@ss/w%rd');
    expect(parse(undefined, 'postgresql://a:b@h/d').password.reveal()).toBe('b');
  });

  it('refuses a password in the URL and an empty file, and names only the setting', () => {
    expect(() => parse('postgresql://a:canary@h/d', 'b')).toThrow(/^ADMIN_DATABASE_URL: [^:]*$/);
    expect(() => parse('postgresql://a:canary@h/d', 'b')).not.toThrow(/canary/);
    expect(() => parse(url, '\n')).toThrow(/^ADMIN_DATABASE_PASSWORD_FILE: /);
  });
});
