import { lookup as dnsLookup } from 'node:dns/promises';
import type { Secret } from '@space/broker-kit';
import { operationOf } from '@space/contracts';
import { createTransport, understand } from '@space/contracts/client';
import { type Calls, EGRESS } from '@space/contracts/egress';

export type Call = Calls['calls'][number];

/** What all replicas of the gateway have counted together. */
export interface GatewayCalls {
  readonly calls: readonly Call[];
  /** Calls of which they do not know the host any more. */
  readonly forgotten: number;
  /** When the replica that counts for longest began. */
  readonly since: string | undefined;
  readonly replicas: number;
  /** How many of them gave no answer. */
  readonly silent: number;
}

/** An Assistant as the API server gave it to whoever asks, and so told them that they may. */
interface Given {
  readonly metadata: { readonly uid: string };
  readonly spec: {
    readonly capsule?: string | undefined;
    readonly manifest?: { readonly platform: { readonly id: string } } | undefined;
  };
}

/** How often an Assistant called, by host. */
export type CallsOf = (assistant: Given) => Promise<GatewayCalls>;

export interface GatewayOptions {
  /** The URL of all replicas: its name resolves to the address of each. */
  readonly url: string;
  readonly token: () => Secret<string>;
  /** The only authority that is believed, and the name that its certificate is for. */
  readonly trust?: { readonly readCa: () => Promise<string>; readonly name?: string } | undefined;
  readonly lookup?: (host: string) => Promise<readonly string[]>;
}

/** A page does not wait longer for what only stands beside its content. */
const CALL_MS = 1_500;

const addressesOf = async (host: string) =>
  (await dnsLookup(host, { all: true })).map(({ address }) => address);

/** Asks each replica, since each knows its own calls alone. Counts of one that is silent are missing, and told as such. */
export function gatewayCalls({ url, token, trust, lookup = addressesOf }: GatewayOptions): CallsOf {
  const transport = createTransport({ trust, connectMs: CALL_MS });
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
        timeoutMs: CALL_MS,
      });
      const understood = understand(EGRESS, 'calls.tell', answer);
      return understood.kind === 'done' ? understood.value : undefined;
    } catch {
      return undefined;
    }
  }

  return async ({ metadata: { uid }, spec: { capsule, manifest } }) => {
    const about = { capsule_id: capsule, app_id: manifest?.platform.id, assistant_uid: uid };
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
