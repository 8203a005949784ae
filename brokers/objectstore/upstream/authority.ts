import { X509Certificate } from 'node:crypto';
import type { TcpNetConnectOpts } from 'node:net';
import { type Logger, type Watched, watched } from '@space/broker-kit';
import { buildConnector } from 'undici';

/** PEM of the authorities that an upstream's certificate must come from, as they are when a connection is opened. */
export type AuthorityNow = () => string;

/**
 * Follows the file of authorities: a Space's own is exchanged while the broker runs, and what the former one signed is
 * refused then. A file that holds no certificate is not taken, so that a slip does not end the service.
 *
 * @throws when it holds none now
 */
export function watchAuthority(path: string, log: Logger): Promise<Watched<string>> {
  const parse = (pem: string) => {
    new X509Certificate(pem);
    return pem;
  };
  return watched(path, parse, log);
}

/** Opens connections, each verified by the authorities of its moment; without any, by the system's. */
export function verifyingConnector(
  options: Omit<buildConnector.BuildOptions, 'ca'> & Pick<TcpNetConnectOpts, 'noDelay'>,
  authority: AuthorityNow | undefined,
): buildConnector.connector {
  if (authority === undefined) return buildConnector(options);
  let known: { readonly ca: string; readonly dial: buildConnector.connector } | undefined;
  return (to, done) => {
    const ca = authority();
    // Another connector, since it resumes TLS sessions, whose certificates were verified by the former authorities.
    if (known?.ca !== ca) known = { ca, dial: buildConnector({ ...options, ca }) };
    known.dial(to, done);
  };
}
