import { DENIED_V4, DENIED_V6, EMBEDDINGS } from '../../kit/testing/addresses.ts';
import type { Records } from './dns.ts';

/** An attempt to reach a denied address. */
export interface Payload {
  readonly kind: 'literal' | 'answer' | 'mixed' | 'chain' | 'rebinding' | 'redirect';
  /** What the Assistant asks for; its manifest allows it. Of a redirect, where it points. */
  readonly host: string;
  /** What DNS says of the host, question by question; the last goes for all that follow. */
  readonly schedule?: readonly Records[];
}

export const PUBLIC_V4 = '1.1.1.1';
export const PUBLIC_V6 = '2606:4700:4700::1111';

const to = (...addresses: string[]): Records => ({ addresses });
const octets = (address: string) => address.split('.').map(Number);
const whole = (address: string) => octets(address).reduce((sum, octet) => sum * 256 + octet, 0);

/** One address in every base and shortening that some program reads as that address. */
const LITERALS: Readonly<Record<string, (address: string) => string>> = {
  dotted: (address) => address,
  decimal: (address) => String(whole(address)),
  hexadecimal: (address) => `0x${whole(address).toString(16)}`,
  octal: (address) => `0${whole(address).toString(8)}`,
  'dotted hexadecimal': (address) =>
    octets(address)
      .map((octet) => `0x${octet.toString(16)}`)
      .join('.'),
  'dotted octal': (address) =>
    octets(address)
      .map((octet) => `0${octet.toString(8)}`)
      .join('.'),
  'mixed bases': (address) => {
    const [a = 0, b = 0, ...rest] = octets(address);
    return [`0x${a.toString(16)}`, `0${b.toString(8)}`, ...rest].join('.');
  },
  'three parts': (address) => {
    const [a, b, c = 0, d = 0] = octets(address);
    return `${a}.${b}.${c * 256 + d}`;
  },
  'two parts': (address) => `${octets(address)[0]}.${whole(address) % 2 ** 24}`,
  'a part beyond its size': (address) => String(2 ** 32 + whole(address)),
  'a dot at the end': (address) => `${address}.`,
  padded: (address) =>
    octets(address)
      .map((octet) => String(octet).padStart(3, '0'))
      .join('.'),
  'full-width digits': (address) =>
    Buffer.from(address.replace(/\d/g, (digit) => String.fromCharCode(0xff10 + Number(digit)))).toString(
      'latin1',
    ),
  'ideographic dots': (address) => Buffer.from(address.replaceAll('.', '\u3002')).toString('latin1'),
  escaped: (address) => address.replaceAll('.', '%2E'),
  'user info': (address) => `api.bank.org@${address}`,
  bracketed: (address) => `[${address}]`,
  mapped: (address) => `[::ffff:${address}]`,
  'mapped, with a zone': (address) => `[::ffff:${address}%25lo]`,
  'a name that somebody maps to it': (address) => `${address}.nip.io`,
};

const places = DENIED_V4.filter((address) => !address.startsWith('0.'));

function literals(): Payload[] {
  const v4 = places.flatMap((address) => Object.values(LITERALS).map((write) => write(address)));
  const v6 = DENIED_V6.flatMap((address) => [address, `[${address}]`, `[${address}%lo]`]);
  const names = [
    'localhost',
    'localhost.',
    'LOCALHOST',
    'ip6-localhost',
    'metadata',
    'kubernetes.default.svc',
  ];
  return [...v4, ...v6, ...names].map((host) => ({ kind: 'literal', host }));
}

function answers(): Payload[] {
  const embedded = DENIED_V4.flatMap((address) => Object.values(EMBEDDINGS).map((embed) => embed(address)));
  return [...DENIED_V4, ...DENIED_V6, ...embedded].map((address, at) => ({
    kind: 'answer',
    host: `answer${at}.attack.org`,
    schedule: [to(address)],
  }));
}

function mixed(): Payload[] {
  return DENIED_V4.flatMap((address, at) => {
    const mapped = `::ffff:${address}`;
    const sets = [
      [PUBLIC_V4, address],
      [address, PUBLIC_V4],
      [PUBLIC_V4, PUBLIC_V4, PUBLIC_V4, PUBLIC_V4, PUBLIC_V4, address],
      [PUBLIC_V4, mapped],
      [PUBLIC_V6, address],
    ];
    return sets.map((set, of) => ({
      kind: 'mixed' as const,
      host: `mixed${at}-${of}.attack.org`,
      schedule: [to(...set)],
    }));
  });
}

function chains(): Payload[] {
  return DENIED_V4.flatMap((address, at) =>
    [1, 2, 8].map((length) => {
      const host = `chain${at}-${length}.attack.org`;
      const through = Array.from({ length }, (_, step) =>
        step === length - 1 ? 'inside.internal' : `step${step}.${host}`,
      );
      return { kind: 'chain' as const, host, schedule: [{ through, addresses: [address] }] };
    }),
  );
}

/** A name with a permitted address at the first query, and another one afterwards. */
function rebinding(): Payload[] {
  return DENIED_V4.flatMap((address, at) => {
    const [good, bad] = [to(PUBLIC_V4), to(address)];
    return [
      [good, bad],
      [good, good, bad],
      [bad, good, bad],
      [good, to(PUBLIC_V4, address)],
    ].map((schedule, of) => ({
      kind: 'rebinding' as const,
      host: `rebinding${at}-${of}.attack.org`,
      schedule,
    }));
  });
}

function redirects(): Payload[] {
  const urls = places.flatMap((address) => [
    `http://${address}/`,
    `https://${address}/latest`,
    `//${address}/`,
  ]);
  return [...urls, ...DENIED_V6.map((address) => `https://[${address}]/`), 'https://answer0.attack.org/'].map(
    (host) => ({
      kind: 'redirect',
      host,
    }),
  );
}

export const PAYLOADS: readonly Payload[] = [
  ...literals(),
  ...answers(),
  ...mixed(),
  ...chains(),
  ...rebinding(),
  ...redirects(),
];

/** Answers each question about a payload's host by its schedule; both kinds of address are asked for at once. */
export function scheduled(
  payloads: readonly Payload[],
): (name: string, type: 'A' | 'AAAA') => Records | undefined {
  const schedules = new Map(
    payloads.flatMap(({ host, schedule }) => (schedule === undefined ? [] : [[host, schedule]])),
  );
  const asked = new Map<string, number>();
  return (name, type) => {
    const schedule = schedules.get(name);
    if (schedule === undefined) return undefined;
    const count = asked.get(name + type) ?? 0;
    asked.set(name + type, count + 1);
    return schedule[Math.min(count, schedule.length - 1)];
  };
}
