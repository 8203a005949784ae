import { X509Certificate } from 'node:crypto';
import type { TcpNetConnectOpts } from 'node:net';
import { type Logger, type Watched, watched } from '@space/broker-kit';
import { buildConnector } from 'undici';

/** The present authorities in PEM, which must have signed an upstream's certificate. */
export type AuthorityNow = () => string;

/**
 * Follows the file of authorities. The Space's own authority is exchanged while the broker runs; certificates of the
 * former one are refused then. A file without a certificate is ignored, so that a mistake does not stop the service.
 * @throws if the file has none now
 */
export function watchAuthority(path: string, log: Logger): Promise<Watched<string>> {
  const parse = (pem: string) => {
    new X509Certificate(pem);
    return pem;
  };
  return watched(path, parse, log);
}

/** Opens connections, each verified by the present authorities; by default by those of the system. */
export function verifyingConnector(
  options: Omit<buildConnector.BuildOptions, 'ca'> & Pick<TcpNetConnectOpts, 'noDelay'>,
  authority: AuthorityNow | undefined,
): buildConnector.connector {
  if (authority === undefined) return buildConnector(options);
  let known: { readonly ca: string; readonly dial: buildConnector.connector } | undefined;
  return (to, done) => {
    const ca = authority();
    // A new connector is needed, since the old one resumes TLS sessions that the former authorities verified.
    if (known?.ca !== ca) known = { ca, dial: buildConnector({ ...options, ca }) };
    known.dial(to, done);
  };
}
