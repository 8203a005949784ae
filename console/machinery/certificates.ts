import { X509Certificate } from 'node:crypto';
import { connect } from 'node:tls';
import type { Authority } from '../authority.ts';

/** The expiry of one of the Space's own certificates. */
export interface Certificate {
  readonly of: string;
  /** Undefined where whoever should show it gave no answer. */
  readonly ends: Date | undefined;
}

export type CertificatesOf = () => Promise<readonly Certificate[]>;

interface Peer {
  readonly of: string;
  readonly url: string;
  /** The name that its certificate is for, where that is not the one it is asked by. */
  readonly name?: string | undefined;
  readonly authority: Authority | undefined;
}

interface CertificatesOptions {
  /** PEM files that the console has itself, each with what it is of. */
  readonly own: readonly { readonly of: string; readonly read: () => string }[];
  /** Services that it speaks to: what they show in a handshake. */
  readonly peers: readonly Peer[];
  readonly now: () => Date;
}

const ANSWER_MS = 1_500;
/** They are exchanged months before they end. */
const KEPT_MS = 60_000;

export function certificatesOf({ own, peers, now }: CertificatesOptions): CertificatesOf {
  let kept: { readonly until: number; readonly all: Promise<readonly Certificate[]> } | undefined;
  return () => {
    if (kept !== undefined && kept.until > now().getTime()) return kept.all;
    const all = Promise.all([
      ...own.map(async ({ of, read }) => ({ of, ends: new X509Certificate(read()).validToDate })),
      ...peers.filter(({ url }) => url.startsWith('https:')).map(shown),
    ]);
    kept = { until: now().getTime() + KEPT_MS, all };
    return all;
  };
}

/** What a service shows of itself, whoever certified it: one that is not believed is told by what asks that service. */
function shown({ of, url, name, authority }: Peer): Promise<Certificate> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect({
      host: hostname.replace(/^\[(.*)\]$/, '$1'),
      port: Number(port === '' ? 443 : port),
      servername: name ?? hostname,
      ca: authority?.(),
      rejectUnauthorized: false,
      timeout: ANSWER_MS,
    });
    const end = (ends: Date | undefined) => {
      resolve({ of, ends });
      socket.destroy();
    };
    socket.once('secureConnect', () => end(socket.getPeerX509Certificate()?.validToDate));
    socket.once('timeout', () => end(undefined));
    socket.once('error', () => end(undefined));
  });
}
