import { describe, expect, it } from 'vitest';
import { applied, type Capsule, type Committed, type Database, emptyRegistry } from './registry.ts';
import { wrongRows } from './rules.ts';

const ACTIVE: Capsule = { state: 'active', incarnation: 1, principal: 'p' };
const READY: Database = {
  ...{ capsule: 'acme', app: 'a', state: 'ready', name: 'spc_1', incarnation: 1, generation: 1 },
  ...{ epoch: 'e', keyId: 'k', rotationDue: false, evicting: false, closed: false },
};
const DROPPING: Database = { ...READY, state: 'dropping' };

const capsule = (before: Capsule | undefined, after: Capsule) => [{ key: 'acme', before, after }];
const database = (before: Database | undefined, after: Database) => [{ key: 'acme/a', before, after }];
const done = (some: Partial<Committed>): Committed => ({
  ...{ capsules: [], databases: [], retired: [], audits: [] },
  ...some,
});

/** A registry with a Capsule whose only database is being dropped. */
function dropping() {
  const made = applied(
    emptyRegistry(),
    done({ capsules: capsule(undefined, ACTIVE), databases: database(undefined, READY) }),
  );
  return applied(made, done({ databases: database(READY, DROPPING) }));
}

describe('the model of the registry', () => {
  it('lets the drop of a Capsule take over the drop of a database', () => {
    const cut = capsule(ACTIVE, { ...ACTIVE, state: 'dropping' });
    expect(
      wrongRows(dropping(), done({ capsules: cut, databases: database(DROPPING, DROPPING) })),
    ).toBeUndefined();
  });

  it('lets nothing else change a database that is being dropped', () => {
    const touched = database(DROPPING, DROPPING);
    expect(wrongRows(dropping(), done({ databases: touched }))).toMatch('dropping to dropping');
    const rotated = capsule(ACTIVE, { ...ACTIVE, principal: 'q' });
    expect(wrongRows(dropping(), done({ capsules: rotated, databases: touched, retired: ['p'] }))).toMatch(
      'dropping to dropping',
    );
    expect(wrongRows(dropping(), done({ databases: database(DROPPING, READY) }))).toMatch(
      'dropping to ready',
    );
  });

  it('requires that the drop of a Capsule drops each of its databases', () => {
    const made = applied(
      emptyRegistry(),
      done({ capsules: capsule(undefined, ACTIVE), databases: database(undefined, READY) }),
    );
    const cut = capsule(ACTIVE, { ...ACTIVE, state: 'dropping' });
    expect(wrongRows(made, done({ capsules: cut }))).toMatch('a database of it is not');
  });
});
