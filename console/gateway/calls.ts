import { lookup as dnsLookup } from 'node:dns/promises';
import type { Secret } from '@space/broker-kit';
import { operationOf } from '@space/contracts';
import { createTransport, understand } from '@space/contracts/client';
import { type Calls, EGRESS } from '@space/contracts/egress';

export type Call = Calls['calls'][number];

/** The sum of the counts of all replicas of the gateway. */
export interface GatewayCalls {
  readonly calls: readonly Call[];
  /** Calls whose host the replicas no longer remember. */
  readonly forgotten: number;
  /** When the replica with the longest memory began to count. */
  readonly since: string | undefined;
  readonly replicas: number;
  /** The number of replicas that did not answer. */
  readonly silent: number;
}

/** An Assistant that the person has read from the API server, and so may see. */
interface Given {
  readonly uid: string;
  readonly capsule: string | undefined;
  readonly id: string | undefined;
}

/** Returns how often an Assistant called each host. */
export type CallsOf = (assistant: Given) => Promise<GatewayCalls>;

export interface GatewayOptions {
  /** The URL of all replicas: its name resolves to the address of each. */
  readonly url: string;
  readonly token: () => Secret<string>;
  /** The only trusted authority, and the name in its certificate. */
  readonly trust?: { readonly readCa: () => Promise<string>; readonly name?: string } | undefined;
  readonly lookup?: (host: string) => Promise<readonly string[]>;
  readonly timeoutMs?: number | undefined;
}

/** Milliseconds that a page waits for this additional information. */
const CALL_MS = 1_500;

const addressesOf = async (host: string) =>
  (await dnsLookup(host, { all: true })).map(({ address }) => address);

/**
 * Asks each replica, since each knows only its own calls. Counts of a replica that does not answer are missing, which
 * is reported.
 */
export function gatewayCalls({
  url,
  token,
  trust,
  lookup = addressesOf,
  timeoutMs = CALL_MS,
}: GatewayOptions): CallsOf {
  const transport = createTransport({ trust, connectMs: timeoutMs });
  const { hostname, protocol, port } = new URL(url);
  const { path } = operationOf(EGRESS, 'calls.tell');

  async function ask(address: string, body: object): Promise<Calls | undefined> {
    const host = address.includes(':') ? `[${address}]` : address;
    try {
      const answer = await transport({
        operation: 'calls.tell',
        url: `${protocol}//${host}${port === '' ? '' : `:${port}`}${path}`,
        token: token(),
        body,
        longest: EGRESS.longest.answer,
        timeoutMs,
      });
      const understood = understand(EGRESS, 'calls.tell', answer);
      return understood.kind === 'done' ? understood.value : undefined;
    } catch {
      return undefined;
    }
  }

  return async ({ uid, capsule, id }) => {
    const about = { capsule_id: capsule, app_id: id, assistant_uid: uid };
    const addresses = await lookup(hostname.replace(/^\[(.*)\]$/, '$1')).catch(() => []);
    const answers = await Promise.all(addresses.map((address) => ask(address, about)));
    return together(answers);
  };
}

function together(answers: readonly (Calls | undefined)[]): GatewayCalls {
  const heard = answers.filter((one) => one !== undefined);
  const rows = new Map<string, Call>();
  for (const { host, input, ending, count, last_at } of heard.flatMap(({ calls }) => calls)) {
    const key = `${host} ${input} ${ending}`;
    const known = rows.get(key);
    const last = known !== undefined && known.last_at > last_at ? known.last_at : last_at;
    rows.set(key, {
      ...(host === undefined ? {} : { host }),
      ...(input === undefined ? {} : { input }),
      ending,
      count: (known?.count ?? 0) + count,
      last_at: last,
    });
  }
  return {
    calls: [...rows.values()],
    forgotten: heard.reduce((sum, { forgotten }) => sum + forgotten, 0),
    since: heard.map(({ since }) => since).sort()[0],
    replicas: answers.length,
    silent: answers.length - heard.length,
  };
}
