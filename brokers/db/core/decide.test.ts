import { describe, expect, it } from 'vitest';
import { type DatabaseRow, decideCreate, decideDrop } from './decide.ts';

const database = (row: Partial<DatabaseRow>): DatabaseRow => ({
  state: 'ready',
  incarnation: 2,
  name: 'spc_a',
  generation: 3,
  epoch: '',
  keyId: 'key',
  rotationDue: false,
  evicting: false,
  closed: false,
  ...row,
});

describe('create', () => {
  it.each([
    ['begins with the first generation', undefined, { kind: 'create', generation: 1 }],
    ['goes on after a tombstone', database({ state: 'dropped' }), { kind: 'create', generation: 4 }],
    ['finds what exists', database({}), { kind: 'existing' }],
    [
      'switches the password that an administrator marked',
      database({ rotationDue: true }),
      { kind: 'rotate', generation: 4 },
    ],
    ['does not interrupt a drop', database({ state: 'dropping' }), { kind: 'conflict' }],
    ['opens nothing that was closed', database({ closed: true, rotationDue: true }), { kind: 'conflict' }],
  ])('%s', (_, row, decision) => {
    expect(decideCreate(row)).toEqual(decision);
  });
});

describe('drop', () => {
  it.each([
    ['knows what never was', undefined, 'never created'],
    ['cuts what is ready', database({}), 'cut'],
    ['cuts what is closed', database({ closed: true }), 'cut'],
    ['cuts what an earlier incarnation made', database({ incarnation: 1 }), 'cut'],
    ['takes up what was begun', database({ state: 'dropping' }), 'resume'],
    ['takes up what an earlier incarnation began', database({ state: 'dropping', incarnation: 1 }), 'resume'],
    ['proves what is gone', database({ state: 'dropped' }), 'already absent'],
    [
      'proves nothing by what an earlier incarnation dropped',
      database({ state: 'dropped', incarnation: 1 }),
      'never created',
    ],
  ])('%s', (_, row, decision) => {
    expect(decideDrop(row, 2)).toBe(decision);
  });
});
