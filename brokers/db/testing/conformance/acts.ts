/** Callers who do at random what callers may do, at brokers that are killed meanwhile. */
import { newToken } from '@space/broker-kit';
import type { Random } from '../../../../testing/random.ts';
import { COMMANDS } from '../../commands.ts';
import { client, type Reply, type TestBroker } from '../broker.ts';
import type { BrokerProcess } from '../process.ts';
import type { RegistryChecker } from './checker.ts';

/** Processes that take requests; each is killed after a while, and another takes its place. */
export interface Doomed {
  /** One of them, by a number; `undefined` while it is dead. */
  url(one: number): string | undefined;
  readonly killed: number;
  stop(): Promise<void>;
}

/** Kills one of them when so many answers, at most, were asked for since the last. */
export async function startDoomed(
  spawn: () => Promise<Pick<BrokerProcess, 'url' | 'kill' | 'gone'>>,
  count: number,
): Promise<Doomed & { killOne(random: Random): Promise<void> }> {
  const start = async () => {
    const { url, kill, gone } = await spawn();
    const one: { url: string | undefined; kill(): Promise<void> } = { url, kill };
    void gone.then(() => {
      one.url = undefined;
    });
    return one;
  };
  const all = await Promise.all(Array.from({ length: count }, start));
  let killed = 0;
  return {
    url: (one) => all[one % count]?.url,
    get killed() {
      return killed;
    },
    killOne: async (random) => {
      const at = random(count);
      killed += 1;
      await all[at]?.kill();
      all[at] = await start();
    },
    stop: async () => {
      await Promise.all(all.map((one) => one.kill()));
    },
  };
}

export interface Acting {
  readonly doomed: Pick<Doomed, 'url'>;
  /** Does what administrators do. */
  readonly survivor: TestBroker;
  readonly provisioner: string;
  readonly checker: Pick<RegistryChecker, 'told'>;
  readonly random: Random;
}

const APPS = ['a', 'b', 'c'];

/** One who uses one Capsule's id again and again; every call of it acts once, or twice side by side. */
export function tenantOf(capsule: string, { doomed, survivor, provisioner, checker, random }: Acting) {
  const tokens = [newToken('dbp').reveal()];
  const app = () => APPS[random(APPS.length)] ?? 'a';
  const command = (name: string, ...args: string[]) =>
    COMMANDS[name]?.run(survivor.servers, 'conformance', args, async () => '');

  async function heard(asked: Promise<Reply>, is: 'ready' | 'dropped'): Promise<void> {
    const { status, json } = await asked;
    if (status !== 200) return;
    const name = is === 'ready' ? new URL(json.database_url).pathname.slice(1) : json.dropped;
    for (const one of Array.isArray(name) ? name : [name]) checker.told({ capsule, name: one, is });
  }

  async function act(): Promise<unknown> {
    const url = doomed.url(random(8)) ?? survivor.url;
    // Now and then somebody comes with a principal of before.
    const token = tokens[random(8) === 0 ? random(tokens.length) : tokens.length - 1] ?? '';
    const one = client(url, token);
    const kind = random(40);
    if (kind < 8) return heard(client(url, provisioner).provision(capsule, token), 'ready');
    if (kind < 20) return heard(one.create(capsule, app()), 'ready');
    if (kind < 28) return heard(one.drop(capsule, app()), 'dropped');
    if (kind < 31) return heard(one.dropAll(capsule), 'dropped');
    if (kind < 36) {
      const { status } = await client(url, provisioner).finalize(capsule);
      if (status === 200) tokens.push(newToken('dbp').reveal());
      return undefined;
    }
    if (kind < 38) return command('rotate', capsule, ...(random(2) === 0 ? ['--end-sessions'] : []));
    return command(random(2) === 0 ? 'close' : 'open', capsule);
  }

  // A killed broker answers nothing, and a command may have nothing to do: the log says what became of it.
  const attempt = () => act().catch(() => undefined);
  return {
    capsule,
    act: () => Promise.all(random(4) === 0 ? [attempt(), attempt()] : [attempt()]),
    /** Undoes a closing by an administrator, and ends the evictions of these databases that were cut short, as a create does. */
    reopen: async (evicting: readonly string[]) => {
      await Promise.resolve(command('open', capsule)).catch(() => undefined);
      for (const app of evicting)
        for (const token of tokens)
          await (app === ''
            ? client(survivor.url, provisioner).provision(capsule, token)
            : client(survivor.url, token).create(capsule, app));
    },
  };
}
