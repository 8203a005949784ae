import * as kinds from '../../operator/kinds.ts';
import { manifest } from '../../operator/testing/manifest.ts';
import type { TestSpace } from '../../operator/testing/space.ts';
import { eventually } from '../../testing/eventually.ts';

const { ASSISTANT, CAPSULE, NETWORK_POLICY } = kinds;
const EACH = 10;
const POLICY = 'space-default-deny';
const WITHIN_MS = 10 * 60_000;

/** Users of one Capsule whose Assistants are suspended, so they are only accepted and isolated. */
export interface Users {
  /** Creates twenty Assistants, changes ten, deletes ten, and deletes a network policy. */
  act(): Promise<void>;
  /** Waits until the operator has acted on all of it. */
  settled(): Promise<void>;
}

export async function createUsers(space: TestSpace): Promise<Users> {
  const { home } = space;
  const namespace = space.namespaceOf(home);
  let rounds = 0;
  const present = new Set<string>();
  const create = async (name: string) => {
    await space.assistant(name, { capsule: home, suspend: true, manifest: manifest(name) });
    present.add(name);
  };
  await space.capsule(home, {});
  for (let i = 0; i < 2 * EACH; i += 1) await create(`a0-${i}`);

  const lookedAt = async (name: string) => {
    const one = await space.get<kinds.Assistant>(ASSISTANT, name);
    return (
      one?.status?.observedGeneration === one?.metadata.generation && one?.status?.conditions !== undefined
    );
  };
  return {
    async act() {
      const [changed, deleted] = [`a${rounds}-`, `a${rounds}-`].map((prefix, half) =>
        Array.from({ length: EACH }, (_, i) => `${prefix}${half * EACH + i}`),
      );
      rounds += 1;
      for (let i = 0; i < 2 * EACH; i += 1) await create(`a${rounds}-${i}`);
      for (const name of changed ?? [])
        await space.patch(ASSISTANT, name, { spec: { replicas: rounds + 1 } });
      for (const name of deleted ?? []) {
        await space.delete(ASSISTANT, name);
        present.delete(name);
      }
      await space.delete(NETWORK_POLICY, POLICY, namespace);
    },
    async settled() {
      const all = async () => {
        const found = (await space.list(ASSISTANT)).map(({ metadata }) => metadata.name);
        if (found.length !== present.size || !found.every((name) => present.has(name)))
          throw new Error(`there are ${found.length} Assistants instead of ${present.size}`);
        const looked = await Promise.all(found.map(lookedAt));
        const missed = found.filter((_, i) => !looked[i]);
        if (missed.length > 0) throw new Error(`the operator has not reconciled ${missed.join(', ')}`);
        if (!(await space.get(NETWORK_POLICY, POLICY, namespace)))
          throw new Error(`the NetworkPolicy ${POLICY} is missing`);
        const ready = await space.condition(CAPSULE, home, 'Ready');
        if (ready !== 'True Ready') throw new Error(`the Capsule is ${ready}`);
        return true;
      };
      await eventually(all, { what: 'all that users did has been acted on', within: WITHIN_MS });
    },
  };
}
