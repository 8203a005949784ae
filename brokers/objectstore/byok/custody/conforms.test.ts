import { describe, expect, it } from 'vitest';
import { explore, type Space } from '../../../../testing/explore.ts';
import { anchorOf } from './anchor.ts';
import type { StoredInventory } from './inventory.ts';
import { wrongAnchor, wrongAnswer, wrongCommit } from './testing/conformance/rules.ts';
import { BOUNDS, DEFECTS, type Defect } from './testing/explored/bounds.ts';
import { custodySpace } from './testing/explored/machine.ts';
import type { State } from './testing/explored/state.ts';

/** The rules that judge what real brokers write (testing/conformance), held against the model. */

function judged(bounds: keyof typeof BOUNDS, defect?: Defect): Space<State> {
  const model = custodySpace(BOUNDS[bounds]!, defect);
  const wrongStep = (state: State, to: State): string | undefined => {
    const [rows, anchored, next] = [state.rows, state.anchor, to.rows].map(model.inventoryOf);
    const all = state.pastAnchors.map(model.inventoryOf).map((one) => one && anchorOf(one));
    const earlier = state.pastRows
      .map(model.inventoryOf)
      .flatMap((one) => all.map((anchor) => ({ rows: one, anchor })));
    const standing = { rows, anchor: anchored && anchorOf(anchored), setBack: state.setBack, earlier };
    const wrong = state.rows === to.rows || next === undefined ? undefined : wrongCommit(standing, next);
    const written = model.inventoryOf(to.anchor);
    if (wrong !== undefined || state.anchor === to.anchor || written === undefined) return wrong;
    const heads = new Map<string, StoredInventory>();
    for (const version of state.pastRows) {
      const inventory = model.inventoryOf(version);
      if (inventory !== undefined) heads.set(inventory.head, inventory);
    }
    return wrongAnchor(standing, anchorOf(written), (head) => heads.get(head));
  };
  const wrongTold = (state: State, label: string): string | undefined => {
    const [, worker] = /^(\d) \w+: answer /.exec(label) ?? [];
    const process = worker === undefined ? undefined : state.processes[Number(worker)];
    const alarm = /^(\d) \w+: judge: alarm/.exec(label);
    if (alarm !== null && state.processes[Number(alarm[1])]?.alarmed !== true) return 'a false alarm';
    const told = process && model.inventoryOf(process.work === 'read' ? process.rows : process.next);
    const anchors = state.pastAnchors.map(model.inventoryOf);
    return told && wrongAnswer(process.floor, told, (one) => anchors.findLast((x) => x?.generation === one));
  };
  return {
    ...{ initial: model.initial, key: model.key },
    next: (state) =>
      model.next(state).map(({ label, to }) => {
        const outside = label.includes(' is set back to ');
        return { label, to, wrong: outside ? undefined : (wrongStep(state, to) ?? wrongTold(state, label)) };
      }),
  };
}

/** Ways to defects are short. */
const MOST = 20_000;

describe('the rules for what the custody writes and answers', () => {
  it.each(Object.keys(BOUNDS))('permit every step of the model: %s', (bounds) => {
    expect(explore(judged(bounds), MOST).wrong).toBeUndefined();
  });

  it.each(DEFECTS)('refuse a custody that %s', (defect) => {
    const found = Object.keys(BOUNDS).some((bounds) => explore(judged(bounds, defect), MOST).wrong);
    expect(found).toBe(true);
  });
});
