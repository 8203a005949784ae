import { describe, expect, it } from 'vitest';
import type { Capsule, Change, Database, Registry } from '../brokers/db/testing/conformance/registry.ts';
import { wrongRows } from '../brokers/db/testing/conformance/rules.ts';
import { explore, type Space } from '../testing/explore.ts';
import { BOUNDS, type Defect } from './testing/explored/bounds.ts';
import { deletionSpace } from './testing/explored/machine.ts';
import type { Row, State } from './testing/explored/state.ts';

/** The rules that judge the log of a real registry (brokers/db/testing/conformance), held against the model. */

const CAPSULE = 'home';
const KEY = 'home/notes';

const capsuleOf = ({ register }: State): Capsule | undefined =>
  register && {
    ...{ state: register.state, incarnation: register.incarnation },
    principal: register.token === 0 ? null : `${register.token}`,
  };

const databaseOf = (row: Row | undefined): Database | undefined =>
  row && {
    ...{
      capsule: CAPSULE,
      app: 'notes',
      state: row.state,
      incarnation: row.incarnation,
      name: `${row.name}`,
    },
    ...{ generation: row.generation, epoch: `${row.epoch}`, keyId: 'k1', rotationDue: row.due },
    ...{ evicting: false, closed: false },
  };

const tokensOf = ({ retired }: State) =>
  Array.from({ length: 30 }, (_, bit) => bit).flatMap((bit) => ((retired >> bit) & 1 ? [`${bit}`] : []));

function registryOf(state: State): Registry {
  const [capsule, database] = [capsuleOf(state), databaseOf(state.row)];
  return {
    capsules: new Map(capsule ? [[CAPSULE, capsule]] : []),
    databases: new Map(database ? [[KEY, database]] : []),
    retired: new Set(tokensOf(state)),
    names: new Set(state.server.map(({ name }) => `${name}`)),
  };
}

function changed<Row>(key: string, before: Row | undefined, after: Row | undefined): Change<Row>[] {
  return JSON.stringify(before) === JSON.stringify(after) ? [] : [{ key, before, after }];
}

/** The first step of the model that the rules do not permit. */
function refused(bounds: keyof typeof BOUNDS, most: number, defect?: Defect) {
  const model = deletionSpace(BOUNDS[bounds], defect);
  const judged: Space<State> = {
    ...{ initial: model.initial, key: model.key },
    next: (state) =>
      model.next(state).map(({ label, to }) => {
        const registry = registryOf(state);
        const wrong = wrongRows(registry, {
          capsules: changed(CAPSULE, capsuleOf(state), capsuleOf(to)),
          databases: changed(KEY, databaseOf(state.row), databaseOf(to.row)),
          retired: tokensOf(to).filter((token) => !registry.retired.has(token)),
          audits: [],
        });
        return { label, to, wrong };
      }),
  };
  return explore(judged, most).wrong;
}

describe('the rules for the log of a registry', () => {
  it.each([
    'an operator that dies while Capsules are made again',
    'an operator that dies in a rotation',
    'a Capsule that is kept and made again',
    'a broker that dies',
  ] as const)('permit every step of the model: %s', (bounds) => {
    expect(refused(bounds, 20_000)).toBeUndefined();
  });

  it.each([
    ['begins its generations again', 'answers that are lost'],
    ['makes anew what was kept', 'a rotation of what is kept'],
    ['keeps its generation when it rotates', 'a rotation of what is kept'],
    ['leaves no tombstone', 'answers that are lost'],
    ['gives the same epoch again', 'answers that are lost'],
    ['takes back a principal that was retired', 'an operator that dies in its first work'],
    ['creates in a Capsule that is being dropped', 'from nothing'],
  ] as const)('refuse a broker that %s', (defect, bounds) => {
    expect(refused(bounds, 200_000, defect)?.trace.length).toBeGreaterThan(0);
  });
});
