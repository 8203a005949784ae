import { describe, expect, it } from 'vitest';
import { type CapsuleRow, type CapsuleState, decideFinalize, decideProvision, mayAct } from './decide.ts';

const capsule = (state: CapsuleState): CapsuleRow => ({ state, incarnation: 2, principal: Buffer.alloc(32) });

describe('provision', () => {
  it.each([
    ['begins the first incarnation of an unknown id', undefined, false, 'first incarnation'],
    ['finds the same Capsule again', capsule('active'), true, 'same incarnation'],
    ['does not give a Capsule to another principal', capsule('active'), false, 'conflict'],
    ['does not interrupt a drop', capsule('dropping'), true, 'conflict'],
    ['waits until the id is released', capsule('retired'), true, 'conflict'],
    ['begins the next incarnation of a released id', capsule('finalized'), false, 'next incarnation'],
  ])('%s', (_, row, same, decision) => {
    expect(decideProvision(row, same)).toBe(decision);
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

it('while a Capsule is being dropped its principal may only drop it', () => {
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
