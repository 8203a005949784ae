import { randomBytes } from 'node:crypto';
import { client } from '../../../testing/broker.ts';
import type { Fixture } from '../../../testing/fixture.ts';
import { spawnBroker } from '../../../testing/process.ts';
import { credentialsOf, type OwnStore } from '../../credentials/testing/byok.ts';

export interface KilledTally {
  rounds: number;
  /** Killed before an answer came. */
  unanswered: number;
  /** After which the registry had the new generation. */
  moved: number;
}

/**
 * Rotates in a process of its own and kills it at any moment, again and again: afterwards another replica has the old
 * state or the new one, whole, what was answered is so, and the same request has one answer. Throws otherwise.
 * `random` is from 0 to 1.
 */
export async function killRotations(
  fixture: Fixture,
  store: OwnStore,
  rounds: number,
  random: () => number,
): Promise<KilledTally> {
  const id = `random-${randomBytes(4).toString('hex')}`;
  const principal = await fixture.broker.capsule(id);
  const own = credentialsOf(principal, id);
  const fields = store.fields();
  const { set_id } = (await own.create('one', fields, 0)).json;
  const { custody } = fixture.broker.context;
  const tally: KilledTally = { rounds: 0, unanswered: 0, moved: 0 };
  let [generation, usualMs] = [1, 1_000];

  for (; tally.rounds < rounds; tally.rounds += 1) {
    const doomed = await spawnBroker({ ...fixture.mounts.environment, ...store.environment });
    const dying = credentialsOf(client(doomed.url, principal.token), id);
    const key = randomBytes(16).toString('hex');
    const begun = performance.now();
    const answer = dying.rotate(set_id, fields, generation, key).then(
      ({ status, json }) => ({ status, generation: json.generation as number }),
      () => undefined,
    );
    // Kills at any moment, and every other time near the end, when the new key takes effect.
    const share = tally.rounds % 2 === 0 ? random() * 1.2 : 0.8 + random() * 0.4;
    const fuse = setTimeout(() => void doomed.kill(), share * usualMs);
    const told = await answer;
    if (told !== undefined) usualMs = performance.now() - begun;
    else tally.unanswered += 1;
    clearTimeout(fuse);
    await doomed.kill();

    const after = (await own.list()).json;
    const [set] = after.sets;
    const moved = set.generation === generation + 1;
    if (after.sets.length !== 1 || !(moved || set.generation === generation))
      throw new Error(`neither old nor new: ${JSON.stringify(after)}`);
    if (told !== undefined && !(told.status === 200 && moved)) throw new Error('told, and not so');
    const values = await custody.reveal(await custody.read(id, async () => 1), set_id);
    if (values.secretAccessKey !== fields['secret-access-key']) throw new Error('another value');
    const again = await own.rotate(set_id, fields, generation, key);
    if (again.status !== 200 || again.json.generation !== generation + 1)
      throw new Error(`asked again: ${again.text}`);
    if (moved) tally.moved += 1;
    // The machine has more to do than when one was last answered.
    else usualMs *= 1.1;
    generation += 1;
  }
  return tally;
}
