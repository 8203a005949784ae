import { Agent, type Dispatcher } from 'undici';

/** The servers that a client trusts. */
export interface Trust {
  /** The only trusted authority, in PEM. */
  readonly readCa: () => Promise<string>;
  /** The name in the certificate, if it differs from the host. */
  readonly name?: string;
}

/**
 * Returns how calls connect. The authority is read for each call, so that an exchanged file is used by the next one.
 */
export function connecting(trust: Trust | undefined, connectMs: number): () => Promise<Dispatcher> {
  let known: { readonly ca: string | undefined; readonly agent: Agent } | undefined;
  return async () => {
    const ca = await trust?.readCa();
    if (known && known.ca === ca) return known.agent;
    const before = known?.agent;
    const servername = trust?.name === undefined ? {} : { servername: trust.name };
    const tls = ca === undefined ? {} : { ca, ...servername, minVersion: 'TLSv1.3' as const };
    known = { ca, agent: new Agent({ connect: { ...tls, timeout: connectMs } }) };
    // Running calls end on their own connections.
    void before?.close();
    return known.agent;
  };
}

/** Codes of OpenSSL and Node for certificates that are not trusted, have another name, or are not valid now. */
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

/** Whether a call failed because the server could not prove to be the service. */
export function isUntrusted(error: unknown): boolean {
  for (let at = error; at instanceof Error; at = at.cause)
    if ('code' in at && typeof at.code === 'string' && UNTRUSTED.has(at.code)) return true;
  return false;
}
