import fc from 'fast-check';
import { expect, it } from 'vitest';
import { databaseUrl, derivationKey, passwordOf, scramVerifier } from './credentials.ts';

const key = derivationKey(Buffer.alloc(32, 1));
const other = derivationKey(Buffer.alloc(32, 2));
const workload = { capsule: 'home', app: 'ledger' };

const first = { generation: 1, epoch: '' };

it('a password is always the same, and differs for every other key, space, workload, generation and epoch', () => {
  const password = passwordOf(key, 'space', workload, first).reveal();
  expect(passwordOf(key, 'space', workload, first).reveal()).toBe(password);
  const others = [
    passwordOf(other, 'space', workload, first),
    passwordOf(key, 'spac', { capsule: 'ehome', app: 'ledger' }, first),
    passwordOf(key, 'space', { ...workload, app: '' }, first),
    passwordOf(key, 'space', workload, { ...first, generation: 11 }),
    passwordOf(key, 'space', workload, { ...first, epoch: '1' }),
  ];
  expect(new Set([password, ...others.map((one) => one.reveal())]).size).toBe(6);
  expect(password).toMatch(/^[A-Za-z0-9_-]{43}$/);
});

it('a verifier is deterministic and does not contain the password', async () => {
  const password = passwordOf(key, 'space', workload, first);
  const verifier = await scramVerifier(key, password);
  expect(await scramVerifier(key, password)).toBe(verifier);
  expect(verifier).toMatch(
    /^SCRAM-SHA-256\$4096:[A-Za-z0-9+/]{22}==\$[A-Za-z0-9+/]{43}=:[A-Za-z0-9+/]{43}=$/,
  );
  expect(verifier).not.toContain(password.reveal());
});

it('the name of a key reveals nothing of it', () => {
  expect(key.id).toMatch(/^[0-9a-f]{16}$/);
  expect(key.id).not.toBe(other.id);
});

it('a URL parses to the parts that it was built from', () => {
  fc.assert(
    fc.property(fc.nat(65_535), fc.constantFrom('postgres', '10.0.0.1', '::1'), (port, host) => {
      const url = new URL(
        databaseUrl('spc_a', passwordOf(key, 's', workload, first), { host, port, sslmode: 'verify-full' }),
      );
      expect(url.hostname.replace(/^\[|\]$/g, '')).toBe(host);
      expect(url.username).toBe('spc_a');
      expect(url.pathname).toBe('/spc_a');
      expect(url.search).toBe('?sslmode=verify-full');
    }),
  );
  const issued = {
    host: 'postgres',
    port: 5432,
    sslmode: 'verify-full',
    sslrootcert: '/etc/space/tls/ca.crt',
  };
  const url = databaseUrl('spc_a', passwordOf(key, 's', workload, first), issued);
  expect(url).toMatch(/\/spc_a\?sslmode=verify-full&sslrootcert=\/etc\/space\/tls\/ca\.crt$/);
});
