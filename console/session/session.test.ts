import { Secret } from '@space/broker-kit';
import { describe, expect, it } from 'vitest';
import { EndedSessions, type Session } from './session.ts';

const sessionOf = (user: string, id: string): Session => ({
  ...{ id, user, formKey: 'x', ends: 1_000 },
  proof: { token: new Secret('x') },
});

describe('sessions that were signed out of', () => {
  it('are as many as one person likes, and those of others stay ended', () => {
    const ended = new EndedSessions();
    ended.add(sessionOf('mia', 'of-mia'), 0);
    for (let count = 0; count < 10_100; count += 1) ended.add(sessionOf('eve', `eve-${count}`), 0);
    expect(ended.has('of-mia')).toBe(true);
    expect(ended.has('eve-10099')).toBe(true);
    expect(ended.has('eve-0')).toBe(false);
  });

  it('are forgotten with their time', () => {
    const ended = new EndedSessions();
    ended.add(sessionOf('mia', 'of-mia'), 0);
    ended.add(sessionOf('eve', 'of-eve'), 1_001);
    expect(ended.has('of-mia')).toBe(false);
  });
});
