import { describe, expect, it } from 'vitest';
import {
  type CapsuleRow,
  type CapsuleState,
  type DatabaseRow,
  decideCreate,
  decideDrop,
  decideFinalize,
  decideProvision,
  mayAct,
} from './decide.ts';

const capsule = (state: CapsuleState): CapsuleRow => ({ state, life: 2, principal: Buffer.alloc(32) });
const database = (row: Partial<DatabaseRow>): DatabaseRow => ({
  state: 'ready',
  name: 'spc_a',
  generation: 3,
  keyId: 'key',
  rotationDue: false,
  closed: false,
  ...row,
});

describe('provision', () => {
  it.each([
    ['begins the first life of an unknown id', undefined, false, 'first life'],
    ['finds the same Capsule again', capsule('active'), true, 'same life'],
    ['does not give a Capsule to another principal', capsule('active'), false, 'conflict'],
    ['does not interrupt a drop', capsule('dropping'), true, 'conflict'],
    ['waits until the id is released', capsule('retired'), true, 'conflict'],
    ['begins the next life of a released id', capsule('finalized'), false, 'next life'],
  ])('%s', (_, row, same, decision) => {
    expect(decideProvision(row, same)).toBe(decision);
  });
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
    ['takes up what was begun', database({ state: 'dropping' }), 'resume'],
    ['proves what is gone', database({ state: 'dropped' }), 'already absent'],
  ])('%s', (_, row, decision) => {
    expect(decideDrop(row)).toBe(decision);
  });
});

describe('finalize', () => {
  it.each([
    ['knows no stranger', undefined, 'unknown'],
    ['does not release what lives', capsule('active'), 'conflict'],
    ['does not release what is being dropped', capsule('dropping'), 'conflict'],
    ['releases what is gone', capsule('retired'), 'finalize'],
    ['says so again', capsule('finalized'), 'already finalized'],
  ])('%s', (_, row, decision) => {
    expect(decideFinalize(row)).toBe(decision);
  });
});

it('while a Capsule is being dropped its principal may do nothing but drop it', () => {
  const allowed = (['active', 'dropping', 'retired', 'finalized'] as const).map((state) => [
    mayAct(state, 'apps'),
    mayAct(state, 'drop'),
  ]);
  expect(allowed).toEqual([
    [true, true],
    [false, true],
    [false, false],
    [false, false],
  ]);
});
