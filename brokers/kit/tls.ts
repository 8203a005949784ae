import { createPublicKey, X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { Secret } from '@space/contracts/secret';
import { Gauge, type Registry } from 'prom-client';
import { ConfigError } from './config.ts';
import type { TlsMaterial } from './listener.ts';
import { type Watched, watchFile } from './watched.ts';

/** The listener's certificate and key, which are read again when their files change. */
export interface WatchedTls {
  current(): TlsMaterial;
  refresh(): Promise<void>;
  close(): void;
}

/**
 * Reads both files; `onChange` is called with a certificate and the key that belongs to it, never with a new and an
 * old one.
 */
export async function watchTls(
  paths: { cert: string; key: string },
  onChange: (material: TlsMaterial) => void,
  intervalMs?: number,
): Promise<WatchedTls> {
  const files: { cert?: Watched<string>; key?: Watched<Secret<string>> } = {};
  let served: TlsMaterial | undefined;
  const changed = () => {
    const next = pairOf(files);
    if (next === undefined || next.cert === served?.cert) return;
    served = next;
    onChange(next);
  };
  const options = { onChange: changed, ...(intervalMs === undefined ? {} : { intervalMs }) };
  files.cert = await watchFile(paths.cert, { ...options, parse: (text) => text });
  files.key = await watchFile(paths.key, { ...options, parse: (text) => new Secret(text) });
  served = pairOf(files);
  if (served === undefined) {
    close();
    throw new ConfigError('TLS_CERT_FILE and TLS_KEY_FILE: not a certificate and its key');
  }
  const first = served;

  function close(): void {
    files.cert?.close();
    files.key?.close();
  }
  const refresh = async () => {
    await files.cert?.refresh();
    await files.key?.refresh();
  };
  return { current: () => served ?? first, refresh, close };
}

function pairOf(files: { cert?: Watched<string>; key?: Watched<Secret<string>> }): TlsMaterial | undefined {
  const cert = files.cert?.current();
  const key = files.key?.current();
  if (cert === undefined || key === undefined) return undefined;
  try {
    const certified = new X509Certificate(cert).publicKey.export({ type: 'spki', format: 'der' });
    const held = createPublicKey(key.reveal()).export({ type: 'spki', format: 'der' });
    if (!certified.equals(held)) return undefined;
    // Only this reads the chain behind the certificate: a listener would refuse one that is half written.
    createSecureContext({ cert, key: key.reveal() });
    return { cert, key };
  } catch {
    return undefined;
  }
}

/** Registers a metric of when the served certificate expires, so that an alert can fire long before. */
export function countTlsExpiry(registry: Registry, tls: Pick<WatchedTls, 'current'>): void {
  new Gauge({
    name: 'space_tls_certificate_not_after_seconds',
    help: 'Time at which the certificate of this listener expires, in seconds since 1970.',
    registers: [registry],
    collect() {
      this.set(new X509Certificate(tls.current().cert).validToDate.getTime() / 1000);
    },
  });
}
