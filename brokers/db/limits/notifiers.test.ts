import { expect, it } from 'vitest';
import { Notifiers } from './notifiers.ts';

it('whoever is seen most often while the queue fills is known for five seconds, and nobody is before that', () => {
  let now = 0;
  const notifiers = new Notifiers(() => now);
  const look = (full: number, ...seen: string[]) => {
    for (const role of seen) notifiers.note(role);
    return notifiers.look(full);
  };
  expect([look(0.2, 'a'), look(0.4, 'b'), look(0.5, 'b')]).toEqual([undefined, undefined, undefined]);
  expect([look(0.51, 'b'), look(0.9, 'a')]).toEqual(['b', 'b']);
  now = 5_001;
  expect(look(0.9)).toBeUndefined();
  // A queue that was short in between is another one.
  expect([look(0), look(0.6), look(0.6, 'a')]).toEqual([undefined, undefined, 'a']);
});
