import {
  ConfigError,
  type Logger,
  parseKeys,
  type Resources,
  type WatchedFile,
  watched,
} from '@space/broker-kit';
import { type DerivationKey, derivationKey } from './core/credentials.ts';

/** The keys that passwords are derived from: the current one for new passwords, all of them for existing ones. */
export interface DerivationKeys {
  readonly current: DerivationKey;
  readonly ids: readonly string[];
  byId(id: string): DerivationKey | undefined;
}

/** Reads the ids of the keys that the databases of one server depend on. */
type KeysInUse = () => Promise<readonly string[]>;

/** The file of the keys. New content without a key that a database depends on is refused. */
export interface DerivationKeyFile extends WatchedFile<DerivationKeys> {
  /**
   * Adds a server, until its resources are closed. @throws ConfigError unless the key of each of its passwords is
   * known: without it a URL could never be issued again
   */
  requireOf(inUse: KeysInUse, resources: Pick<Resources, 'closers'>): Promise<void>;
}

export async function watchDerivationKeys(path: string, log: Logger): Promise<DerivationKeyFile> {
  const servers = new Set<KeysInUse>();
  let known: readonly string[] = [];

  async function parse(text: string): Promise<DerivationKeys> {
    const next = parseDerivationKeys(text);
    // Servers are asked only about a key that is gone, so that one which does not answer delays nothing else.
    if (known.some((id) => next.byId(id) === undefined))
      for (const inUse of servers) requireAll(next, await inUse().catch(unanswered));
    known = next.ids;
    return next;
  }

  const file = await watched(path, parse, log);
  return {
    ...file,
    requireOf: async (inUse, { closers }) => {
      servers.add(inUse);
      closers.push(() => servers.delete(inUse));
      const ids = await inUse();
      requireAll(file.current(), ids);
    },
  };
}

function unanswered(cause: unknown): never {
  throw new ConfigError(
    'DERIVATION_KEY_FILE: a server does not say whether databases depend on what is missing',
    {
      cause,
    },
  );
}

function requireAll(keys: DerivationKeys, ids: readonly string[]): void {
  const missing = ids.filter((id) => keys.byId(id) === undefined);
  if (missing.length === 0) return;
  throw new ConfigError(
    `DERIVATION_KEY_FILE: keys that databases depend on are missing: ${missing.join(', ')}`,
  );
}

/** Reads one key a line; the first is the current one. */
function parseDerivationKeys(text: string): DerivationKeys {
  const keys = parseKeys(text, 'DERIVATION_KEY_FILE').map((key) => derivationKey(key.reveal()));
  const [current] = keys;
  if (current === undefined) throw new ConfigError('DERIVATION_KEY_FILE: no key in it');
  const byId = new Map(keys.map((key) => [key.id, key]));
  return { current, ids: [...byId.keys()], byId: (id) => byId.get(id) };
}
