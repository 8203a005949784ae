import { Resolver } from 'node:dns/promises';

/** An address of a name for the next `ttl` seconds; `port` is set only if an administrator fixed one. */
export interface Answer {
  readonly address: string;
  readonly ttl: number;
  readonly port?: number;
  /** An administrator configured this address, so the guard is not asked. */
  readonly trusted?: true;
}

/** Resolves a name to all of its IPv4 and IPv6 addresses; empty if it has none. Rejects if no server answered. */
export type Resolve = (host: string) => Promise<readonly Answer[]>;

const TIMEOUT_MS = 2_000;
const TRIES = 2;
const LONGEST_TTL_S = 60;
/**
 * The most addresses of a name that can be dialled: all of them are judged for each connection, and whoever answers for a
 * name can give it thousands.
 */
export const MOST_ADDRESSES = 128;
/** Seconds until a name with more addresses is asked for again, since reading such an answer takes long. */
const TOO_MANY_TTL_S = 10;
/** The most addresses that are cached, and names, each of which counts as one more. */
const MOST_KEPT = 16_384;

/** Asks the machine's DNS servers for exactly this name: no hosts file, no search list. */
export function dnsResolve(servers?: readonly string[], timeoutMs = TIMEOUT_MS): Resolve {
  const resolver = new Resolver({ timeout: timeoutMs, tries: TRIES });
  if (servers !== undefined) resolver.setServers(servers);
  return async (host) => {
    const answers = await Promise.allSettled([
      resolver.resolve4(host, { ttl: true }),
      resolver.resolve6(host, { ttl: true }),
    ]);
    const failed = answers.find((answer) => answer.status === 'rejected' && !isAbsent(answer.reason));
    // If one of the two queries failed, the result is a failure, since the missing part may contain an address to
    // refuse.
    if (failed?.status === 'rejected') throw failed.reason;
    return answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
  };
}

/** Fixed addresses take precedence over DNS. */
export function withFixed(fixed: ReadonlyMap<string, Answer>, resolve: Resolve): Resolve {
  return async (host) => {
    const known = fixed.get(host);
    return known === undefined ? resolve(host) : [known];
  };
}

/**
 * Caches answers for their TTL, at most a minute; concurrent queries for a name are one. A name with too many addresses is
 * given none.
 */
export function cached(resolve: Resolve, now: () => number = () => performance.now()): Resolve {
  const kept = new Map<string, { readonly until: number; readonly answers: readonly Answer[] }>();
  const asked = new Map<string, Promise<readonly Answer[]>>();
  let size = 0;
  function keep(host: string, answers: readonly Answer[], ttl: number): void {
    const former = kept.get(host);
    size += answers.length - (former === undefined ? -1 : former.answers.length);
    if (size > MOST_KEPT) {
      kept.clear();
      size = 1 + answers.length;
    }
    kept.set(host, { until: now() + ttl * 1000, answers });
  }
  async function ask(host: string): Promise<readonly Answer[]> {
    const answers = await resolve(host);
    if (answers.length > MOST_ADDRESSES) {
      keep(host, [], TOO_MANY_TTL_S);
      return [];
    }
    if (answers.length > 0)
      keep(host, answers, Math.min(LONGEST_TTL_S, ...answers.map((answer) => answer.ttl)));
    return answers;
  }
  return (host) => {
    const known = kept.get(host);
    if (known !== undefined && known.until > now()) return Promise.resolve(known.answers);
    const pending = asked.get(host) ?? ask(host).finally(() => asked.delete(host));
    asked.set(host, pending);
    return pending;
  };
}

/** The name does not exist or has no address of this kind, which is an answer and not a failure. */
function isAbsent(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return code === 'ENOTFOUND' || code === 'ENODATA';
}
