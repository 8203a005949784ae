import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { connect } from 'node:tls';
import * as z from 'zod';
import type { Authority } from '../authority.ts';

/** The expiry of one of the Space's own certificates. */
export interface Certificate {
  readonly of: string;
  /** Undefined where nobody has told it. */
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
  /** The name that its certificate is for, where that is not the one it is asked by. */
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
  /** Every service that has a certificate. */
  readonly services: Readonly<Record<Name, { readonly secret: string; readonly yours: boolean }>>;
  /** The file in which the program of keys tells of those that it signed. */
  readonly signed: string | undefined;
  /** PEM files that the console has itself, each with what it is of. */
  readonly own: readonly { readonly of: Name; readonly read: () => string }[];
  /** Services that it speaks to: what they show in a handshake. */
  readonly peers: readonly Peer[];
  readonly now: () => Date;
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
/** They are exchanged months before they end. */
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

/** What a service shows counts, and of one that the console never meets what the program of keys has told. */
async function readAll({
  names,
  services,
  signed,
  own,
  peers,
}: CertificatesOptions): Promise<readonly Certificate[]> {
  const shownBy = peers.filter(({ url }) => url.startsWith('https:'));
  const ends = new Map<Name, Date | undefined>([
    ...own.map(({ of, read }) => [of, new X509Certificate(read()).validToDate] as const),
    ...(await Promise.all(shownBy.map(async (peer) => [peer.of, await shown(peer)] as const))),
  ]);
  const told = signed === undefined ? {} : await signedEnds(signed);
  const all = new Set([...own.map(({ of }) => of), ...Object.keys(services), ...shownBy.map(({ of }) => of)]);
  // One's own authority signs all of one's certificates, or the Space's signs all of its.
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
        advice: `Delete its Secret, and the next run makes another with every certificate. Delete it: kubectl -n ${servicesNamespace} delete secret space-ca. Run it now: ${run}`,
      }
    : {
        renewedBy: `CronJob ${space}-keys`,
        advice: `CronJob ${space}-keys renews it after a third of its time and looks every hour. See why it did not: kubectl -n ${systemNamespace} logs -l platform.space/component=keys --tail=-1. Run it now: ${run}`,
      };
}

const byYou = (where: string) => ({
  renewedBy: `you, in ${where}`,
  advice: `It is of your own authority: see why whoever issues it has not renewed ${where}.`,
});

const ofSigned = z.record(z.string(), z.coerce.date());

/** Nothing where the file is missing or no such file: the program of keys of an older release writes none. */
async function signedEnds(file: string): Promise<Readonly<Record<Name, Date>>> {
  try {
    return ofSigned.parse(JSON.parse(await readFile(file, 'utf8')));
  } catch {
    return {};
  }
}

/** What a service shows of itself, whoever certified it: one that is not believed is told by what asks that service. */
function shown({ url, name, authority }: Peer): Promise<Date | undefined> {
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
      resolve(ends);
      socket.destroy();
    };
    socket.once('secureConnect', () => end(socket.getPeerX509Certificate()?.validToDate));
    socket.once('timeout', () => end(undefined));
    socket.once('error', () => end(undefined));
  });
}
