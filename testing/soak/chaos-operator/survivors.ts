import * as kinds from '../../../operator/kinds.ts';
import type { Resource } from '../../../operator/runtime/kube-object.ts';
import { eventually } from '../../eventually.ts';
import type { DesiredAssistant, Population } from './population.ts';
import type { SpaceView } from './world.ts';

const SETTLE_MS = 15 * 60_000;

/**
 * Waits until all Capsules are Ready and all Assistants are as their users want them, and checks each Assistant while it is
 * Ready. Suspended ones are resumed by turns for that.
 */
export async function ready(
  space: SpaceView,
  population: Population,
  survivors: readonly DesiredAssistant[],
  look: (one: DesiredAssistant) => Promise<void>,
): Promise<void> {
  const becomes = (resource: Resource, name: string, wanted: string) =>
    eventually(
      async () => {
        const object = await space.get<kinds.Assistant>(resource, name);
        const condition = object?.status?.conditions?.find(({ type }) => type === 'Ready');
        if (object?.status?.observedGeneration !== object?.metadata.generation)
          throw new Error('the operator has not observed the latest change');
        if (condition?.reason === wanted) return true;
        throw new Error(`${condition?.reason}: ${condition?.message}`);
      },
      { what: `${resource.kind} ${name} is ${wanted}`, within: SETTLE_MS },
    );
  for (const name of population.capsules) await becomes(kinds.CAPSULE, name, 'Ready');
  const suspended = survivors.filter((one) => one.suspended);
  const running = survivors.filter((one) => !one.suspended);
  for (const one of suspended) await becomes(kinds.ASSISTANT, one.name, 'Suspended');
  for (const one of running) await becomes(kinds.ASSISTANT, one.name, 'Ready');
  for (const one of running) await look(one);
  for (const one of running) await population.suspend(one, true);
  while (suspended.length > 0) {
    const turn: DesiredAssistant[] = [];
    for (const one of suspended) {
      await population.suspend(one, false);
      if (one.suspended) break;
      turn.push(one);
    }
    suspended.splice(0, turn.length);
    for (const one of turn) await becomes(kinds.ASSISTANT, one.name, 'Ready');
    for (const one of turn) await look(one);
    for (const one of turn) await population.suspend(one, true);
  }
}
