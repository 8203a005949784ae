import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { connect, createServer } from 'node:tls';
import { describe, expect, it } from 'vitest';
import { isAuthority, makeAuthority, makeCertificate, whyRenew } from './certificates.ts';

const NOW = new Date();
const later = (days: number) => new Date(NOW.getTime() + days * 86_400_000);
const NAMES = ['postgres.home-services.svc', 'postgres'];
const authority = await makeAuthority('Space home', 3650, NOW);
const pair = await makeCertificate(authority, NAMES, 90, NOW);

describe('a certificate', () => {
  it('lets its server be verified by each of its names, and by no other', async () => {
    const server = createServer({ cert: pair.certificate, key: pair.key, minVersion: 'TLSv1.3' }).listen(
      0,
      '127.0.0.1',
    );
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const ask = (servername: string, ca: string) =>
      new Promise<string>((resolve) => {
        const socket = connect({ host: '127.0.0.1', port, servername, ca });
        socket
          .on('secureConnect', () => resolve('verified'))
          .on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? ''));
        socket.once('close', () => undefined).unref();
      });
    for (const name of NAMES) expect(await ask(name, authority.certificate)).toBe('verified');
    expect(await ask('db-broker', authority.certificate)).toBe('ERR_TLS_CERT_ALTNAME_INVALID');
    const other = await makeAuthority('Space home', 3650, NOW);
    expect(await ask('postgres', other.certificate)).not.toBe('verified');
    server.close();
  });

  it('is renewed after a third of its lifetime, for other names, and if it is of another authority', async () => {
    expect(whyRenew(pair, authority, NAMES, NOW)).toBeUndefined();
    expect(whyRenew(pair, authority, NAMES.toReversed(), later(29))).toBeUndefined();
    expect(whyRenew(pair, authority, NAMES, later(31))).toContain('third');
    expect(whyRenew(pair, authority, ['postgres'], NOW)).toContain('names');
    const other = await makeAuthority('Space home', 3650, NOW);
    expect(whyRenew(pair, other, NAMES, NOW)).toContain('authority');
  });

  it('is renewed if it is not a certificate, or has another key', async () => {
    const other = await makeCertificate(authority, NAMES, 90, NOW);
    for (const wrong of [
      {},
      { certificate: 'x', key: 'y' },
      { ...pair, key: other.key },
      { ...pair, key: '' },
    ])
      expect(whyRenew(wrong, authority, NAMES, NOW)).toBeDefined();
  });
});

describe('an authority', () => {
  it('signs certificates, but no further authorities', () => {
    const certificate = new X509Certificate(authority.certificate);
    expect(certificate.ca).toBe(true);
    expect(certificate.subject).toBe('CN=Space home');
    expect(isAuthority(authority)).toBe(true);
    expect(new X509Certificate(pair.certificate).ca).toBe(false);
  });

  it('is invalid if its key cannot sign', async () => {
    const other = await makeAuthority('Space home', 1, NOW);
    for (const wrong of [
      {},
      pair,
      { ...authority, key: other.key },
      { certificate: 'x', key: authority.key },
    ])
      expect(isAuthority(wrong)).toBe(false);
  });
});
