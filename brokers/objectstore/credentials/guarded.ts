import { connect as connectTls, rootCertificates } from 'node:tls';
import type { Dialler } from '@space/broker-kit';
import { Client, type Dispatcher } from 'undici';

/**
 * One connection at a time to a host that somebody else named: dialled through the guard, TLS 1.2 or better with a
 * certificate for that very name, no proxy, no redirects.
 */
export function guardedClient(
  origin: string,
  {
    dialler,
    ca,
    deadline,
  }: { readonly dialler: Dialler; readonly ca: string | undefined; readonly deadline: AbortSignal },
): Dispatcher {
  const { hostname, port } = new URL(origin);
  return new Client(origin, {
    pipelining: 1,
    headersTimeout: 5_000,
    bodyTimeout: 5_000,
    maxHeaderSize: 16 * 1024,
    connect: (_options, done) => {
      secure(hostname, Number(port || 443)).then(
        (socket) => done(null, socket),
        (error: Error) => done(error, null),
      );
    },
  });

  async function secure(host: string, at: number) {
    const socket = await dialler.dial(host, at, deadline);
    const tls = connectTls({
      socket,
      servername: host,
      minVersion: 'TLSv1.2',
      ALPNProtocols: ['http/1.1'],
      ...(ca === undefined ? {} : { ca: [...rootCertificates, ca] }),
    });
    const { promise, resolve, reject } = Promise.withResolvers<typeof tls>();
    const stop = () => tls.destroy(new Error('the deadline passed'));
    deadline.addEventListener('abort', stop, { once: true });
    // Stays: an abort may fail the socket and its TLS both, and an error that nobody hears ends the process.
    tls.on('error', reject);
    tls.once('close', () => reject(new Error('closed during the handshake')));
    tls.once('secureConnect', () => resolve(tls));
    return promise.finally(() => deadline.removeEventListener('abort', stop));
  }
}
