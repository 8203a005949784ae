/** Compares the picture with observations: which probe is asked about which target, and the expected result. It uses no cluster. */
import { type Beyond, FREE, isAllowed, type Party, type Picture, type Protocol } from './arrows.ts';
import { type Block, covers } from './blocks.ts';

/** Targets that are no pods of the Space, by their names in a report. */
export type Place = 'dns' | 'other ports of dns' | 'API server' | 'node' | 'metadata' | 'outside';

/** A pod that tries connections. */
export interface Source {
  readonly name: string;
  readonly party: Party;
  readonly addresses: readonly string[];
  /** Addresses that policies of its own name: the API server, or what an administrator has allowed. */
  readonly blocks: readonly Block[];
  /** The protocols that its program can use, if it cannot use all. */
  readonly speaks?: readonly Protocol[];
}

export interface Target {
  readonly name: string;
  readonly to: Party | Place;
  readonly protocol: Protocol;
  readonly address: string;
  /** 0 for ICMP. */
  readonly port: number;
  /** The addresses and ports at which connections end: for a Service those of its pods. */
  readonly ends: readonly { readonly address: string; readonly port: number }[];
}

/** The result that look.ts prints; `unasked` if it printed none. */
export type Outcome = 'connected' | 'refused' | 'unreachable' | 'silence' | 'unable' | 'unasked';
/** `theirs`: neither the Space nor its policies decide it. */
type Expected = 'open' | 'closed' | 'theirs';

export interface Cell {
  readonly from: string;
  readonly party: Party;
  readonly target: string;
  readonly to: Party | Place;
  readonly expected: Expected;
  readonly seen: Outcome;
  readonly agrees: boolean;
  /**
   * Another pod has reached the target in this run, so that silence is the effect of a policy and not of a target
   * that is down.
   */
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

/** A pod at its own address. No policy applies there, so the result shows whether something listens. */
export const isOwn = (source: Source, { address, protocol }: Target): boolean =>
  protocol === 'tcp' && source.addresses.includes(address);

/**
 * The result that the arrows demand; undefined for a pod and itself, and for protocols that its program cannot use.
 */
export function expectedOf(picture: Picture, source: Source, target: Target): Expected | undefined {
  const { to, protocol, port, ends } = target;
  if (ends.some(({ address }) => source.addresses.includes(address))) return undefined;
  if (source.speaks?.includes(protocol) === false) return undefined;
  const free = FREE.includes(source.party);
  if (!isPlace(to)) {
    if (free && FREE.includes(to)) return 'theirs';
    return isAllowed(picture, source.party, to, protocol, ends[0]?.port ?? port)
      ? drawn(source, target)
      : 'closed';
  }
  if (free) return 'theirs';
  const named = (beyond: Beyond, at = port) => isAllowed(picture, source.party, beyond, protocol, at);
  // DNS servers may listen at another port than their Service.
  if (to === 'dns' && named('dns', 53)) return 'open';
  const reach =
    named('addresses') && ends.some((end) => source.blocks.some((block) => covers(block, protocol, end)));
  return reach ? 'open' : 'closed';
}

/** A connection on which everything is allowed is measured over TCP only, since nothing need answer the rest. */
const drawn = ({ party }: Source, { to, protocol }: Target) =>
  protocol !== 'tcp' && FREE.includes(party) && to === 'assistant' ? 'theirs' : 'open';

/**
 * A refusal comes from a policy if the target is known to answer. Otherwise it comes from the target, which was then
 * reached.
 */
function agrees(expected: Expected, seen: Outcome, protocol: Protocol, answers: boolean): boolean {
  if (expected === 'theirs') return true;
  if (expected === 'open') return seen === 'connected';
  // Some runtimes give a container no ICMP socket, so that it can reach nothing by a ping.
  if (seen === 'unable') return protocol === 'icmp';
  return seen === 'silence' || seen === 'unreachable' || (seen === 'refused' && answers);
}

export type Outcomes = ReadonlyMap<string, ReadonlyMap<string, Outcome>>;

export const targetKey = ({ protocol, address, port }: Omit<Target, 'name' | 'to' | 'ends'>) =>
  protocol === 'icmp' ? `icmp ${address}` : `${protocol} ${address} ${port}`;

/** Compares every source and target; cells without an answer are `unasked`. Other sightings may be witnesses, too. */
export function compare(
  picture: Picture,
  sources: readonly Source[],
  targets: readonly Target[],
  sightings: Outcomes,
  others: Outcomes = new Map(),
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
