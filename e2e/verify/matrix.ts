/** Who is asked about what, what the arrows say of it, and whether what was seen is that. No cluster in here. */
import { type Beyond, FREE, leads, type Party, type Protocol } from './arrows.ts';
import { type Block, covers } from './blocks.ts';

/** What is no pod of the Space, and how it is called in a report. */
type Place = 'dns' | 'API server' | 'node' | 'metadata' | 'outside';

/** A pod that looks out. */
export interface Source {
  readonly name: string;
  readonly party: Party;
  readonly addresses: readonly string[];
  /** Addresses that policies of its own name: the API server, or what an administrator has allowed. */
  readonly blocks: readonly Block[];
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
  /** Something answers at it whoever asks, so that a refusal is a wall's and not its own. */
  readonly listens: boolean;
}

/** As the program of look.ts says it. */
export type Seen = 'connected' | 'refused' | 'unreachable' | 'silence' | 'unasked';
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
  /** Of what is closed: somebody else met it meanwhile, so that silence is a wall and not a target that is away. */
  readonly witnessed: boolean;
}

const PLACES: readonly string[] = ['dns', 'API server', 'node', 'metadata', 'outside'] satisfies Place[];
const isPlace = (to: Party | Place): to is Place => PLACES.includes(to);

/** What the arrows say; undefined of a pod and itself. */
export function expectedOf(source: Source, target: Target): Expected | undefined {
  const { to, protocol, port, ends } = target;
  if (ends.some(({ address }) => source.addresses.includes(address))) return undefined;
  if (!isPlace(to))
    return leads(source.party, to, protocol, ends[0]?.port ?? port) ? drawn(source, target) : 'closed';
  if (FREE.includes(source.party)) return 'theirs';
  const named = (beyond: Beyond) => leads(source.party, beyond, protocol, port);
  if (to === 'dns' && named('dns')) return 'open';
  const reach =
    named('addresses') && ends.some((end) => source.blocks.some((block) => covers(block, protocol, end)));
  return reach ? 'open' : 'closed';
}

/** A way on which everything may go is measured over TCP: nobody need answer the rest. */
const drawn = ({ party }: Source, { to, protocol }: Target) =>
  protocol !== 'tcp' && FREE.includes(party) && to === 'assistant' ? 'theirs' : 'open';

function agrees(expected: Expected, seen: Seen, { listens }: Target): boolean {
  if (seen === 'unasked' || expected === 'theirs') return true;
  if (expected === 'open') return seen === 'connected';
  return seen !== 'connected' && (seen !== 'refused' || listens);
}

export type Sightings = ReadonlyMap<string, ReadonlyMap<string, Seen>>;

export const targetKey = ({ protocol, address, port }: Target) =>
  protocol === 'icmp' ? `icmp ${address}` : `${protocol} ${address} ${port}`;

/** Every source and target; what nobody was asked is `unasked`. Others may be witnesses, too. */
export function compare(
  sources: readonly Source[],
  targets: readonly Target[],
  sightings: Sightings,
  others: Sightings = new Map(),
): Cell[] {
  const looks = [...sightings.values(), ...others.values()];
  const met = new Set(
    looks.flatMap((look) => [...look].flatMap(([target, seen]) => (seen === 'connected' ? [target] : []))),
  );
  return sources.flatMap((source) =>
    targets.flatMap((target): Cell[] => {
      const expected = expectedOf(source, target);
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
          agrees: agrees(expected, seen, target),
          witnessed: met.has(targetKey(target)),
        },
      ];
    }),
  );
}
