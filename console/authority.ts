import { X509Certificate } from 'node:crypto';
import { buildConnector } from 'undici';

/** The only trusted authority at present, in PEM. */
export type Authority = () => string;

/** Parses a file with a certificate; refuses one that is only partly written. */
export function parseCertificate(text: string): string {
  new X509Certificate(text);
  return text;
}

/** Returns a connector that trusts the present authority, or the public ones if none is configured. */
export function connectorBy(
  authority: Authority | undefined,
  options: buildConnector.BuildOptions = {},
): buildConnector.connector {
  let known: { readonly ca: string | undefined; readonly connect: buildConnector.connector } | undefined;
  return (to, done) => {
    const ca = authority?.();
    // A new connector for each authority, so that no session continues which another one verified.
    if (known === undefined || known.ca !== ca)
      known = { ca, connect: buildConnector(ca === undefined ? options : { ...options, ca }) };
    known.connect(to, done);
  };
}
