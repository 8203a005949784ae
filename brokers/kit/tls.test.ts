import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TLSSocket } from 'node:tls';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { type Authority, makeAuthority } from '../../testing/certificates.ts';
import { type Listener, listen } from './listener.ts';
import { createLogger } from './log.ts';
import { closeNow, createMetrics, portOf } from './metrics.ts';
import { type WatchedTls, watchTls } from './tls.ts';

let directory: string;
let authority: Authority;
let tls: WatchedTls;
let listener: Listener;
const paths = () => ({ cert: join(directory, 'tls.crt'), key: join(directory, 'tls.key') });

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'space-tls-'));
  authority = makeAuthority(directory, 'authority');
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));
beforeEach(async () => {
  put('first');
  tls = await watchTls(paths(), (material) => listener.useTls(material));
  listener = await listen(
    { listener: (_, response) => response.end(), drain: () => undefined },
    {
      name: 'control',
      host: '127.0.0.1',
      port: 0,
      tls: tls.current(),
      connections: { total: 10, perAddress: 10 },
      log: createLogger({ service: 'test', level: 'silent' }),
      metrics: createMetrics(),
    },
  );
});
afterEach(async () => {
  tls.close();
  await closeNow(listener.server);
});

/** Puts another certificate with its key into the files, the certificate as it is changed. */
function put(name: string, change: (pem: string) => string = (pem) => pem): void {
  const { cert, key } = authority.sign(name, ['DNS:localhost']);
  writeFileSync(paths().cert, change(readFileSync(cert, 'utf8')));
  writeFileSync(paths().key, readFileSync(key));
}

/** The name in the certificate that a new connection is served with. */
function served(): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    const options = {
      host: '127.0.0.1',
      port: portOf(listener.server),
      servername: 'localhost',
      agent: false,
    };
    request({ ...options, ca: readFileSync(authority.cert) }, (response) => {
      const { CN } = (response.socket as TLSSocket).getPeerCertificate().subject;
      response.resume().on('end', () => resolve(String(CN)));
    })
      .on('error', reject)
      .end();
  });
}

it('serves another certificate once both files have it', async () => {
  put('second');
  await tls.refresh();
  expect(await served()).toBe('second');
});

it.each([
  ['is cut off', (pem: string, chain: string) => `${pem}${chain.slice(0, 300)}`],
  ['is damaged', (pem: string, chain: string) => `${pem}${chain.replace(/^MII.{40}/m, '!'.repeat(43))}`],
])(
  'continues with its certificate, and reports when that expires, while the chain of another %s',
  async (_, harm) => {
    const chain = readFileSync(authority.cert, 'utf8');
    const first = tls.current();
    put('third', (pem) => harm(pem, chain));
    await tls.refresh();
    expect(await served()).toBe('first');
    expect(tls.current()).toBe(first);
    put('fourth', (pem) => `${pem}${chain}`);
    await tls.refresh();
    expect(await served()).toBe('fourth');
  },
);
