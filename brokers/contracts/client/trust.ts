import { Agent, type Dispatcher } from 'undici';

/** The servers that a client trusts. */
export interface Trust {
  /** The only authority whose certificates are believed, PEM. */
  readonly readCa: () => Promise<string>;
  /** The name that the certificate must be for, where it is not the host that is called. */
  readonly name?: string;
}

/** How calls connect: the authority's text is read for each, so that an exchanged file is taken at the next one. */
export function connecting(trust: Trust | undefined, connectMs: number): () => Promise<Dispatcher> {
  let known: { readonly ca: string | undefined; readonly agent: Agent } | undefined;
  return async () => {
    const ca = await trust?.readCa();
    if (known && known.ca === ca) return known.agent;
    const before = known?.agent;
    const servername = trust?.name === undefined ? {} : { servername: trust.name };
    const tls = ca === undefined ? {} : { ca, ...servername, minVersion: 'TLSv1.3' as const };
    known = { ca, agent: new Agent({ connect: { ...tls, timeout: connectMs } }) };
    // Calls that are under way end on the connections that they have.
    void before?.close();
    return known.agent;
  };
}

/** OpenSSL's and Node's words for a certificate that is not vouched for, is of another name, or is out of its time. */
const UNTRUSTED = new Set([
  'CERT_HAS_EXPIRED',
  'CERT_NOT_YET_VALID',
  'CERT_SIGNATURE_FAILURE',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'INVALID_PURPOSE',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);

/** Whether a call failed because whoever answered could not prove to be the service. */
export function isUntrusted(error: unknown): boolean {
  for (let at = error; at instanceof Error; at = at.cause)
    if ('code' in at && typeof at.code === 'string' && UNTRUSTED.has(at.code)) return true;
  return false;
}
