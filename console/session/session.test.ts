import { Secret } from '@space/broker-kit';
import { describe, expect, it } from 'vitest';
import {
  bearer,
  EndedSessions,
  formToken,
  isFormToken,
  newFormKey,
  newId,
  type Session,
  sessionOf as sessionOfStored,
  storedSession,
  storedTrip,
} from './session.ts';

const sessionOf = (user: string, id: string): Session => ({
  ...{ id, user, formKey: 'x', ends: 1_000 },
  proof: { token: new Secret('x') },
});

describe('sessions after a sign-out', () => {
  it('may be many of one person, and those of others stay ended', () => {
    const ended = new EndedSessions();
    ended.add(sessionOf('mia', 'of-mia'), 0);
    for (let count = 0; count < 10_100; count += 1) ended.add(sessionOf('eve', `eve-${count}`), 0);
    expect(ended.has('of-mia')).toBe(true);
    expect(ended.has('eve-10099')).toBe(true);
    expect(ended.has('eve-0')).toBe(false);
  });

  it('are forgotten when they would have expired', () => {
    const ended = new EndedSessions();
    ended.add(sessionOf('mia', 'of-mia'), 0);
    ended.add(sessionOf('eve', 'of-eve'), 1_001);
    expect(ended.has('of-mia')).toBe(false);
    const also = new EndedSessions();
    also.add(sessionOf('mia', 'of-mia'), 999);
    also.add(sessionOf('eve', 'of-eve'), 999);
    expect(also.has('of-mia')).toBe(true);
    also.add(sessionOf('eve', 'another'), 1_000);
    expect([also.has('of-mia'), also.has('another')]).toEqual([false, true]);
  });

  it('are at most ten thousand', () => {
    const ended = new EndedSessions();
    for (let count = 0; count < 10_000; count += 1) ended.add(sessionOf('eve', `eve-${count}`), 0);
    expect(ended.has('eve-0')).toBe(true);
    ended.add(sessionOf('mia', 'of-mia'), 0);
    expect([ended.has('eve-0'), ended.has('eve-1'), ended.has('of-mia')]).toEqual([false, true, true]);
  });
});

describe('the token of a form', () => {
  it('is valid only for its session and its address', () => {
    const [key, other] = [newFormKey(), newFormKey()];
    const token = formToken(key, '/a');
    expect(isFormToken(token, key, '/a')).toBe(true);
    expect(isFormToken(token, other, '/a')).toBe(false);
    expect(isFormToken(token, key, '/b')).toBe(false);
    const wrong = `${token.slice(0, -1)}${token.endsWith('A') ? 'E' : 'A'}`;
    for (const given of [undefined, '', wrong, `${token}x`, token.slice(1)])
      expect(isFormToken(given, key, '/a')).toBe(false);
  });

  it('is derived from a key that is new for each session, as is the id', () => {
    expect(new Set([newFormKey(), newFormKey(), newId(), newId()]).size).toBe(4);
    expect([newFormKey().length, newId().length]).toEqual([43, 22]);
  });
});

describe('a Kubernetes token', () => {
  it.each(['a', 'A.b_c~d+e/f-1==', 'x'.repeat(2_600)])('may have the form: %#', (text) => {
    expect(bearer.safeParse(text).success).toBe(true);
  });
  it.each(['', '=', 'a b', 'a\n', '\na', 'a=b', 'ä', 'x'.repeat(2_601)])(
    'may not have the form: %#',
    (text) => {
      expect(bearer.safeParse(text).success).toBe(false);
    },
  );
});

describe('the cookie of a session', () => {
  const stored = { id: 'i', shown: { token: 'abc' }, user: 'mia', formKey: 'f', ends: 1 };
  const isSession = (changes: object) => storedSession.safeParse({ ...stored, ...changes }).success;

  it('contains a token, or a person whom the issuer has named', () => {
    const { shown: _, ...rest } = stored;
    const { proof, ...session } = sessionOfStored(storedSession.parse(stored));
    expect(session).toEqual(rest);
    expect('token' in proof && proof.token.reveal()).toBe('abc');
    const named = storedSession.parse({ ...stored, shown: { groups: ['a', 'b'] } });
    expect(sessionOfStored(named)).toEqual({
      ...rest,
      proof: { person: { user: 'mia', groups: ['a', 'b'] } },
    });
  });

  it('contains nothing else, and nothing longer', () => {
    expect(isSession({ user: 'u'.repeat(512), shown: { groups: ['g'.repeat(256)] } })).toBe(true);
    for (const changes of [
      { user: 'u'.repeat(513) },
      { shown: { groups: ['g'.repeat(257)] } },
      { shown: { token: 'abc', groups: [] } },
      { shown: { token: 'a b' } },
      { shown: {} },
      { ends: '1' },
      { more: 1 },
    ])
      expect(isSession(changes)).toBe(false);
    const trip = { state: 's', nonce: 'n', verifier: 'v', to: '/'.repeat(512) };
    expect(storedTrip.safeParse(trip).success).toBe(true);
    expect(storedTrip.safeParse({ ...trip, to: '/'.repeat(513) }).success).toBe(false);
  });
});
