import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type Candidate,
  chooseServer,
  decideRoute,
  judgePrincipal,
  type Knowledge,
  type Placed,
} from './decide.ts';

describe('a Capsule', () => {
  const configured = new Set(['main', 'b']);
  const nowhere: Placed = { server: null, movingTo: null, onMain: false };
  it.each<[string, Partial<Placed>, object]>([
    ['is where it was noted', { server: 'b' }, { kind: 'server', name: 'b' }],
    ['is where it was noted, whatever main has of it', { server: 'b', onMain: true }, { name: 'b' }],
    ['that main alone knows is on main', { onMain: true }, { kind: 'server', name: 'main' }],
    ['that nobody knows is nowhere', {}, { kind: 'unplaced' }],
    ['that is being moved is on no server', { server: 'b', movingTo: 'main' }, { kind: 'moving' }],
    ['is on a server that is gone', { server: 'c' }, { kind: 'not configured', name: 'c' }],
  ])('%s', (_, placed, route) => {
    expect(decideRoute({ ...nowhere, ...placed }, 'main', configured)).toMatchObject(route);
  });
});

const load = fc.record({ capsules: fc.nat(50), room: fc.boolean() });
const candidates = fc
  .array(
    fc.record({
      weight: fc.integer({ min: 1, max: 100 }),
      drain: fc.boolean(),
      load: fc.option(load, { nil: undefined }),
    }),
    { maxLength: 6 },
  )
  .map((all) => all.map((one, index): Candidate => ({ name: `s${index}`, ...one })));

describe('the choice of a server', () => {
  const fits = ({ drain, load: said }: Candidate) => !drain && said?.room === true;
  const shareOf = ({ weight, load: said }: Candidate) => ((said?.capsules ?? 0) + 1) / weight;

  it('picks the first of those with the fewest Capsules by weight, and none that is draining, full or silent', () => {
    fc.assert(
      fc.property(candidates, (all) => {
        const choice = chooseServer(all);
        const fitting = all.filter(fits);
        if (choice.kind !== 'server') {
          expect(fitting).toEqual([]);
          const silent = all.some((one) => !one.drain && one.load === undefined);
          expect(choice.kind).toBe(silent ? 'unanswered' : 'full');
          return;
        }
        const least = Math.min(...fitting.map(shareOf));
        expect(choice.name).toBe(fitting.find((one) => shareOf(one) === least)?.name);
      }),
    );
  });

  it('distributes many Capsules by weight', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 5 }), (weights) => {
        const capsules = weights.map(() => 0);
        const rounds = 20;
        const total = weights.reduce((sum, weight) => sum + weight, 0);
        for (let i = 0; i < total * rounds; i += 1) {
          const choice = chooseServer(
            weights.map((weight, index) => ({
              name: String(index),
              weight,
              drain: false,
              load: { capsules: capsules[index]!, room: true },
            })),
          );
          capsules[choice.kind === 'server' ? Number(choice.name) : -1]! += 1;
        }
        expect(capsules).toEqual(weights.map((weight) => weight * rounds));
      }),
    );
  });
});

describe('what servers know of a principal', () => {
  const knows = (capsule: string): Knowledge => ({ principal: { capsule, state: 'active' } });
  const knowsNot: Knowledge = { principal: undefined };
  it.each<[string, readonly Knowledge[], object]>([
    ['one knows it', [knowsNot, knows('a')], { kind: 'known', principal: { capsule: 'a' } }],
    ['one knows it and one is silent', [undefined, knows('a')], { kind: 'known' }],
    ['nobody knows it', [knowsNot, knowsNot], { kind: 'unknown' }],
    ['nobody who answers knows it', [knowsNot, undefined], { kind: 'unanswered' }],
    ['nobody answers', [undefined], { kind: 'unanswered' }],
    ['two know it, even of one Capsule', [knows('a'), knows('a')], { kind: 'unknown' }],
    ['two know it and one is silent', [knows('a'), knows('b'), undefined], { kind: 'unknown' }],
  ])('%s', (_, answers, verdict) => {
    expect(judgePrincipal(answers)).toMatchObject(verdict);
  });

  it('accepts a principal only if exactly one server knows it', () => {
    const answer = fc.constantFrom<Knowledge>(knows('a'), knows('b'), knowsNot, undefined);
    fc.assert(
      fc.property(fc.array(answer, { maxLength: 6 }), (answers) => {
        const known = answers.filter((one) => one?.principal !== undefined).length;
        expect(judgePrincipal(answers).kind === 'known').toBe(known === 1);
      }),
    );
  });
});
