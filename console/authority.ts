import { X509Certificate } from 'node:crypto';
import { buildConnector } from 'undici';

/** PEM of the only authority that is believed, as it is at this moment. */
export type Authority = () => string;

/** What a file of an authority must be to be taken; half of one that is being written is not. */
export function parseAuthority(text: string): string {
  new X509Certificate(text);
  return text;
}

/** Connections to whoever the authority of the moment has certified, or the public ones where none is named. */
export function connectorBy(
  authority: Authority | undefined,
  options: buildConnector.BuildOptions = {},
): buildConnector.connector {
  let known: { readonly ca: string | undefined; readonly connect: buildConnector.connector } | undefined;
  return (to, done) => {
    const ca = authority?.();
    // Anew with each authority, so that no session goes on that another one vouched for.
    if (known === undefined || known.ca !== ca)
      known = { ca, connect: buildConnector(ca === undefined ? options : { ...options, ca }) };
    known.connect(to, done);
  };
}
