import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { connect } from 'node:tls';
import * as z from 'zod';
import type { Authority } from '../authority.ts';

/** The expiry of one of the Space's own certificates. */
export interface Certificate {
  readonly of: string;
  /** Undefined if it is not known. */
  readonly ends: Date | undefined;
  /** Who renews it, for a table. */
  readonly renewedBy: string;
  /** What to do when its end is near. */
  readonly advice: string;
}

export type CertificatesOf = () => Promise<readonly Certificate[]>;

/** A service by the name of its Service. */
type Name = string;

interface Peer {
  readonly of: Name;
  readonly url: string;
  /** The name in its certificate, if it differs from the name in its address. */
  readonly name?: string | undefined;
  readonly authority: Authority | undefined;
}

interface Names {
  readonly space: string;
  readonly systemNamespace: string;
  readonly servicesNamespace: string;
}

interface CertificatesOptions {
  readonly names: Names;
  /** Every service with a certificate. */
  readonly services: Readonly<Record<Name, { readonly secret: string; readonly yours: boolean }>>;
  /** The file in which the program of keys lists the certificates that it has signed. */
  readonly signed: string | undefined;
  /** PEM files that the console has mounted, each with the service that it belongs to. */
  readonly own: readonly { readonly of: Name; readonly read: () => string }[];
  /** Services that the console connects to; their certificates are read from the handshake. */
  readonly peers: readonly Peer[];
  readonly now: () => Date;
  /** The longest that a handshake may take, if not as long as usual. */
  readonly answerMs?: number | undefined;
}

export const AUTHORITY = 'authority';
const NAMES: Readonly<Record<Name, string>> = {
  [AUTHORITY]: 'The Space’s authority',
  console: 'Console',
  'db-broker': 'Database broker',
  'objectstore-broker': 'Object store, control and data',
  'platform-assistant-egress': 'Egress gateway',
  postgres: 'PostgreSQL',
  s3: 'S3 server',
};

const ANSWER_MS = 1_500;
/** Milliseconds for which the result is reused; certificates are renewed months before they expire. */
const KEPT_MS = 60_000;

export function certificatesOf(options: CertificatesOptions): CertificatesOf {
  const { now } = options;
  let kept: { readonly until: number; readonly all: Promise<readonly Certificate[]> } | undefined;
  return () => {
    if (kept !== undefined && kept.until > now().getTime()) return kept.all;
    const all = readAll(options);
    kept = { until: now().getTime() + KEPT_MS, all };
    return all;
  };
}

/**
 * The certificate in a handshake counts; for a service that the console never connects to, the list of the program of
 * keys.
 */
async function readAll({
  names,
  services,
  signed,
  own,
  peers,
  answerMs = ANSWER_MS,
}: CertificatesOptions): Promise<readonly Certificate[]> {
  const shownBy = peers.filter(({ url }) => url.startsWith('https:'));
  const ends = new Map<Name, Date | undefined>([
    ...own.map(({ of, read }) => [of, new X509Certificate(read()).validToDate] as const),
    ...(await Promise.all(shownBy.map(async (peer) => [peer.of, await shown(peer, answerMs)] as const))),
  ]);
  const told = signed === undefined ? {} : await signedEnds(signed);
  const all = new Set([...own.map(({ of }) => of), ...Object.keys(services), ...shownBy.map(({ of }) => of)]);
  // Either an authority of your own signs all certificates, or the Space's does.
  const areYours = Object.values(services).some(({ yours }) => yours);
  return [...all].map((of) => ({
    of: NAMES[of] ?? of,
    ends: ends.get(of) ?? told[of],
    ...(areYours ? byYou(services[of]?.secret ?? 'the ConfigMap of the authority') : bySpace(of, names)),
  }));
}

function bySpace(of: Name, { space, systemNamespace, servicesNamespace }: Names) {
  const run = `kubectl -n ${systemNamespace} create job --from=cronjob/${space}-keys keys-now`;
  return of === AUTHORITY
    ? {
        renewedBy: 'an administrator',
        advice: `Delete its Secret, and the next run creates a new authority and all certificates. Delete it: kubectl -n ${servicesNamespace} delete secret space-ca. Run it now: ${run}`,
      }
    : {
        renewedBy: `CronJob ${space}-keys`,
        advice: `CronJob ${space}-keys checks it every hour and renews it after a third of its lifetime. See why it did not: kubectl -n ${systemNamespace} logs -l platform.space/component=keys --tail=-1. Run it now: ${run}`,
      };
}

const byYou = (where: string) => ({
  renewedBy: `you, in ${where}`,
  advice: `Your own authority issues it: find out why ${where} was not renewed.`,
});

const ofSigned = z.record(z.string(), z.coerce.date());

/** Empty if the file is missing or has another form, since older programs of keys write none. */
async function signedEnds(file: string): Promise<Readonly<Record<Name, Date>>> {
  try {
    return ofSigned.parse(JSON.parse(await readFile(file, 'utf8')));
  } catch {
    return {};
  }
}

/**
 * When a service's certificate ends, whoever signed it; whether it is trusted is checked by the clients of that
 * service.
 */
function shown({ url, name, authority }: Peer, answerMs: number): Promise<Date | undefined> {
  const { hostname, port } = new URL(url);
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  return new Promise((resolve) => {
    const socket = connect({
      host,
      port: Number(port === '' ? 443 : port),
      // The name in a handshake cannot be an address.
      servername: name ?? (isIP(host) === 0 ? host : ''),
      ca: authority?.(),
      rejectUnauthorized: false,
      timeout: answerMs,
    });
    const end = (ends: Date | undefined) => {
      resolve(ends);
      socket.destroy();
    };
    socket.once('secureConnect', () => end(socket.getPeerX509Certificate()?.validToDate));
    socket.once('timeout', () => end(undefined));
    socket.once('error', () => end(undefined));
  });
}
