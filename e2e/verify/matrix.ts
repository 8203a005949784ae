/** Compares the picture with observations: which probe is asked about which target, and the expected result. It uses no cluster. */
import { type Beyond, FREE, leads, type Party, type Picture, type Protocol } from './arrows.ts';
import { type Block, covers } from './blocks.ts';

/** What is no pod of the Space, and how it is called in a report. */
export type Place = 'dns' | 'other ports of dns' | 'API server' | 'node' | 'metadata' | 'outside';

/** A pod that looks out. */
export interface Source {
  readonly name: string;
  readonly party: Party;
  readonly addresses: readonly string[];
  /** Addresses that policies of its own name: the API server, or what an administrator has allowed. */
  readonly blocks: readonly Block[];
  /** What its program can ask over, where that is not every protocol. */
  readonly speaks?: readonly Protocol[];
}

export interface Target {
  readonly name: string;
  readonly to: Party | Place;
  readonly protocol: Protocol;
  readonly address: string;
  /** 0 of ICMP. */
  readonly port: number;
  /** Where it ends: of a Service with its pods. */
  readonly ends: readonly { readonly address: string; readonly port: number }[];
}

/** The result that look.ts prints; `unasked` if it printed none. */
export type Seen = 'connected' | 'refused' | 'unreachable' | 'silence' | 'unable' | 'unasked';
/** `theirs`: neither the Space nor its policies say anything about it. */
type Expected = 'open' | 'closed' | 'theirs';

export interface Cell {
  readonly from: string;
  readonly party: Party;
  readonly target: string;
  readonly to: Party | Place;
  readonly expected: Expected;
  readonly seen: Seen;
  readonly agrees: boolean;
  /** Something has met the target meanwhile, so that silence is a wall and not a target that is away. */
  readonly witnessed: boolean;
}

const PLACES: readonly string[] = [
  'dns',
  'other ports of dns',
  'API server',
  'node',
  'metadata',
  'outside',
] satisfies Place[];
const isPlace = (to: Party | Place): to is Place => PLACES.includes(to);

/** A pod at its own address: no policy holds it back there, so it shows whether something listens. */
export const isOwn = (source: Source, { address, protocol }: Target): boolean =>
  protocol === 'tcp' && source.addresses.includes(address);

/** What the arrows say; undefined of a pod and itself, and of what it has no program to ask. */
export function expectedOf(picture: Picture, source: Source, target: Target): Expected | undefined {
  const { to, protocol, port, ends } = target;
  if (ends.some(({ address }) => source.addresses.includes(address))) return undefined;
  if (source.speaks?.includes(protocol) === false) return undefined;
  const free = FREE.includes(source.party);
  if (!isPlace(to)) {
    if (free && FREE.includes(to)) return 'theirs';
    return leads(picture, source.party, to, protocol, ends[0]?.port ?? port)
      ? drawn(source, target)
      : 'closed';
  }
  if (free) return 'theirs';
  const named = (beyond: Beyond, at = port) => leads(picture, source.party, beyond, protocol, at);
  // Its servers may listen at another port than the one that everybody asks.
  if (to === 'dns' && named('dns', 53)) return 'open';
  const reach =
    named('addresses') && ends.some((end) => source.blocks.some((block) => covers(block, protocol, end)));
  return reach ? 'open' : 'closed';
}

/** A way on which everything may go is measured over TCP: nobody need answer the rest. */
const drawn = ({ party }: Source, { to, protocol }: Target) =>
  protocol !== 'tcp' && FREE.includes(party) && to === 'assistant' ? 'theirs' : 'open';

/** A refusal is a wall's where the target is known to answer; otherwise it was the target's own, which was reached. */
function agrees(expected: Expected, seen: Seen, protocol: Protocol, answers: boolean): boolean {
  if (expected === 'theirs') return true;
  if (expected === 'open') return seen === 'connected';
  // Some runtimes give a container no socket to ping with, and then it can reach nobody by it.
  if (seen === 'unable') return protocol === 'icmp';
  return seen === 'silence' || seen === 'unreachable' || (seen === 'refused' && answers);
}

export type Sightings = ReadonlyMap<string, ReadonlyMap<string, Seen>>;

export const targetKey = ({ protocol, address, port }: Omit<Target, 'name' | 'to' | 'ends'>) =>
  protocol === 'icmp' ? `icmp ${address}` : `${protocol} ${address} ${port}`;

/** Every source and target; what nobody was asked is `unasked`. Others may be witnesses, too. */
export function compare(
  picture: Picture,
  sources: readonly Source[],
  targets: readonly Target[],
  sightings: Sightings,
  others: Sightings = new Map(),
): Cell[] {
  const looks = [...sightings.values(), ...others.values()];
  const met = new Set(
    looks.flatMap((look) => [...look].flatMap(([target, seen]) => (seen === 'connected' ? [target] : []))),
  );
  const answers = (target: Target) =>
    met.has(targetKey(target)) ||
    (target.protocol === 'tcp' &&
      target.ends.every((end) => met.has(targetKey({ protocol: 'tcp', ...end }))));
  return targets
    .map((target) => ({ target, witnessed: answers(target) }))
    .flatMap(({ target, witnessed }) =>
      sources.flatMap((source): Cell[] => {
        const expected = expectedOf(picture, source, target);
        if (expected === undefined) return [];
        const seen = sightings.get(source.name)?.get(targetKey(target)) ?? 'unasked';
        return [
          {
            from: source.name,
            party: source.party,
            target: target.name,
            to: target.to,
            expected,
            seen,
            agrees: agrees(expected, seen, target.protocol, witnessed),
            witnessed,
          },
        ];
      }),
    );
}
