import { rootCertificates } from 'node:tls';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readConfig } from '../config.ts';
import { readServerPlans } from './config.ts';

const CA = '/etc/space/servers/b/ca.crt';
const [AUTHORITY = ''] = rootCertificates;
const url = `postgres://space_broker@b.example:5433/space_registry?sslmode=verify-full&sslrootcert=${CA}`;
const b = {
  name: 'b',
  url,
  passwordFile: '/etc/space/servers/b/password',
  issued: {
    host: 'b',
    port: 5433,
    sslmode: 'verify-full',
    sslrootcert: '/etc/space/tls/postgres.crt',
  },
};

function plansOf(file: unknown) {
  const config = readConfig({
    SPACE_NAME: 'home',
    ADMIN_DATABASE_URL: 'postgres://space_broker@main.example/space_registry',
    ISSUED_HOST: 'main',
    SERVERS_FILE: '/servers.json',
  });
  return readServerPlans(config, (path) => {
    if (path === CA) return AUTHORITY;
    if (path !== '/servers.json') throw new Error(`no file ${path}`);
    return typeof file === 'string' ? file : JSON.stringify(file);
  });
}

it('without a file there is only the server of the environment', () => {
  const config = readConfig({ SPACE_NAME: 'home', ISSUED_HOST: 'here' });
  const read = () => {
    throw new Error('reads no file');
  };
  expect(readServerPlans(config, read)).toMatchObject({
    main: { name: 'main', weight: 1, drain: false, file: '/etc/space/admin/url', issued: { host: 'here' } },
    further: [],
  });
});

it('reads all settings of servers, and combines URL and password', () => {
  const { main, further } = plansOf({
    main: { weight: 2, drain: true },
    servers: [
      { ...b, weight: 0.5 },
      { ...b, name: 'c-2', issued: { host: 'c' }, drain: true },
    ],
  });
  expect(main).toMatchObject({ name: 'main', weight: 2, drain: true, issued: { host: 'main', port: 5432 } });
  expect(further).toMatchObject([
    { name: 'b', weight: 0.5, drain: false, file: b.passwordFile, issued: b.issued },
    { name: 'c-2', weight: 1, drain: true, issued: { host: 'c', port: 5432 } },
  ]);
  const address = further[0]!.parse('s3cr3t\n');
  expect(address).toMatchObject({ host: 'b.example', port: 5433, ssl: { ca: AUTHORITY } });
  expect(address.password.reveal()).toBe('s3cr3t');
});

describe('reports field and rule', () => {
  const one = (server: object) => ({ servers: [{ ...b, ...server }] });
  it.each<[string, unknown, RegExp]>([
    ['no JSON', '{', /^SERVERS_FILE: not JSON/],
    ['a key twice', '{"servers":[],"servers":[]}', /^SERVERS_FILE: duplicate key/],
    ['no servers', {}, /^SERVERS_FILE: servers: /],
    ['a field that is none', { servers: [], more: 1 }, /^SERVERS_FILE: .*Unrecognized key: "more"/],
    ['a field of a server that is none', one({ port: 1 }), /servers\.0: .*Unrecognized key: "port"/],
    ['a name with capitals', one({ name: 'B' }), /servers\.0\.name: not a lower-case DNS label/],
    ['a name that is too long', one({ name: 'b'.repeat(21) }), /servers\.0\.name: .*20/],
    ['the name of the first', one({ name: 'main' }), /servers\.0\.name: "main" is the server/],
    ['a name twice', { servers: [b, b] }, /servers\.1\.name: another server has this name/],
    ['a weight of nothing', one({ weight: 0 }), /servers\.0\.weight: /],
    ['too large a weight', one({ weight: 1_001 }), /servers\.0\.weight: .*1000/],
    ['a weight of the first that is none', { main: { weight: '1' }, servers: [] }, /main\.weight: /],
    ['no URL', one({ url: 'b.example' }), /^SERVERS_FILE: servers\.0\.url: not a URL$/],
    [
      'a URL with a password',
      one({ url: 'postgres://a:canary@b/r' }),
      /^SERVERS_FILE: servers\.0\.url: a password belongs into the file of SERVERS_FILE: servers\.0\.passwordFile$/,
    ],
    ['half of TLS', one({ url: 'postgres://a@b/r?sslmode=require' }), /servers\.0\.url: sslmode must be/],
    [
      'an authority that is not there',
      one({ url: 'postgres://a@b/r?sslmode=verify-full&sslrootcert=/none' }),
      /servers\.0\.url: the file of sslrootcert cannot be read/,
    ],
    ['no port', one({ issued: { ...b.issued, port: 70_000 } }), /servers\.0\.issued\.port: not a port/],
    ['a port as text', one({ issued: { ...b.issued, port: '1' } }), /servers\.0\.issued\.port: /],
    [
      'an authority that nobody verifies by',
      one({ issued: { ...b.issued, sslmode: 'require' } }),
      /servers\.0\.issued\.sslrootcert: needs sslmode verify-full or verify-ca/,
    ],
    [
      'a path that is none',
      one({ issued: { ...b.issued, sslrootcert: 'x y' } }),
      /servers\.0\.issued\.sslrootcert: not an absolute path/,
    ],
  ])('%s', (_, file, message) => {
    expect(() => plansOf(file)).toThrow(message);
    expect(() => plansOf(file)).not.toThrow(/canary/);
  });

  it('a file that cannot be read', () => {
    const config = readConfig({
      SPACE_NAME: 'home',
      ADMIN_DATABASE_URL: 'postgres://a@b/c',
      SERVERS_FILE: '/none',
    });
    expect(() => readServerPlans(config)).toThrow('SERVERS_FILE: the file cannot be read');
  });
});

it('any content of the file is read, or refused with a message that begins with its variable', () => {
  fc.assert(
    fc.property(fc.oneof(fc.json(), fc.string()), (text) => {
      try {
        plansOf(text);
      } catch (error) {
        expect(String(error)).toMatch(/^ConfigError: SERVERS_FILE: /);
      }
    }),
  );
});
