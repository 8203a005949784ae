import { expect, test } from 'vitest';
import { fakeClock } from '../testing/fake-clock.ts';
import type { ApiClient, ApiRequest } from './client.ts';
import { EventRecorder } from './events.ts';
import type { Resource } from './kube-object.ts';

const THING: Resource = { group: 'g', version: 'v1', plural: 'things', kind: 'Thing', namespaced: true };
const object = { metadata: { name: 'a', namespace: 'n', uid: 'u', resourceVersion: '7' } };
const happening = (note: string) => ({ type: 'Normal', reason: 'Happened', action: 'Test', note }) as const;

function makeRecorder(send: (request: ApiRequest) => Promise<unknown> = async () => ({})) {
  const sent: Record<string, unknown>[] = [];
  const series: { path: string; body: unknown }[] = [];
  const clock = fakeClock();
  const client = {
    async call(request: ApiRequest) {
      const answer = await send(request);
      if (request.method === 'PATCH') series.push({ path: request.path, body: request.body });
      else sent.push(request.body as Record<string, unknown>);
      return answer;
    },
  } as ApiClient;
  const recorder = new EventRecorder({ client, clock, controller: 'c', instance: 'i' });
  return { sent, series, clock, recorder };
}

test('an occurrence is recorded once, and again if it happens much later', async () => {
  const { sent, clock, recorder } = makeRecorder();
  recorder.record(THING, object, happening('x'));
  recorder.record(THING, object, happening('y'));
  await recorder.flush();
  expect(sent.map(({ note }) => note)).toEqual(['x', 'y']);
  expect(sent[0]).toMatchObject({
    regarding: { apiVersion: 'g/v1', kind: 'Thing', name: 'a', namespace: 'n', uid: 'u' },
  });
  clock.advance(11 * 60_000);
  recorder.record(THING, object, happening('x'));
  await recorder.flush();
  expect(sent.length).toBe(3);
});

test.each(['a', '\u00e9', '\u4e16', '\u{1f600}', '\ud83d'])(
  'a note is cut to the number of bytes that the API server accepts: %j',
  async (unit) => {
    const { sent, recorder } = makeRecorder();
    for (const before of ['', 'x', 'xx', 'xxx'])
      recorder.record(THING, object, happening(before + unit.repeat(1200)));
    recorder.record(THING, object, happening(unit.repeat(250)));
    await recorder.flush();
    const notes = sent.map(({ note }) => String(note));
    for (const note of notes) {
      expect(note.isWellFormed()).toBe(true);
      expect(Buffer.byteLength(note)).toBeLessThanOrEqual(1024);
    }
    expect(notes.map((note) => note.endsWith('…'))).toEqual([true, true, true, true, false]);
  },
);

/** A name that the API server accepts (RFC 1123), at most 253 characters long. */
const SUBDOMAIN = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

test('an Event of an object with a long name has a name that the API server accepts', async () => {
  const { sent, recorder } = makeRecorder();
  const names = ['a', ...['a', 'a-', 'a--', 'a.', 'a.a-'].map((part) => part.repeat(250))].flatMap((long) =>
    Array.from({ length: 24 }, (_, i) => `${long.slice(0, 252 - i)}z`),
  );
  expect(names.filter((name) => SUBDOMAIN.test(name)).length).toBeGreaterThan(100);
  for (const name of names.filter((one) => SUBDOMAIN.test(one)))
    recorder.record(THING, { metadata: { ...object.metadata, name, uid: name } }, happening('x'));
  await recorder.flush();
  const given = sent.map(({ metadata }) => (metadata as { readonly name: string }).name);
  expect(given.filter((name) => !SUBDOMAIN.test(name))).toEqual([]);
  expect(given[0]).toMatch(/^az\.[0-9a-f]{16}$/);
});

test('an object with many Events gets ten at once, then one every ten seconds', async () => {
  const { sent, clock, recorder } = makeRecorder();
  for (let i = 0; i < 50; i++) recorder.record(THING, object, happening(String(i)));
  await recorder.flush();
  expect(sent.length).toBe(10);
  clock.advance(10_000);
  for (let i = 50; i < 60; i++) recorder.record(THING, object, happening(String(i)));
  await recorder.flush();
  expect(sent.length).toBe(11);
});

test('an Event that could not be recorded fails no caller, and may be recorded later', async () => {
  let broken = true;
  const { sent, recorder } = makeRecorder(async () => {
    if (broken) throw new Error('away');
  });
  recorder.record(THING, object, happening('x'));
  await recorder.flush();
  broken = false;
  recorder.record(THING, object, happening('x'));
  await recorder.flush();
  expect(sent.length).toBe(1);
});

test('an Event that is announced is stored before what it tells of, or its caller fails', async () => {
  let broken = true;
  const { sent, series, recorder } = makeRecorder(async () => {
    if (broken) throw new Error('away');
  });
  await expect(recorder.announce(THING, object, happening('x'))).rejects.toThrow('away');
  broken = false;
  await recorder.announce(THING, object, happening('x'));
  expect(sent.length).toBe(1);
  await recorder.announce(THING, object, happening('x'));
  await recorder.flush();
  expect([sent.length, series.length]).toEqual([1, 1]);
  // Other Events of the object do not crowd it out.
  for (let i = 0; i < 50; i++) recorder.record(THING, object, happening(String(i)));
  await recorder.announce(THING, object, happening('y'));
  expect(sent.at(-1)).toMatchObject({ note: 'y' });
});

test('a repeated occurrence is one Event with a count, which is written once a minute', async () => {
  const { sent, series, clock, recorder } = makeRecorder();
  for (let i = 0; i < 30; i++) recorder.record(THING, object, happening('x'));
  expect(series).toEqual([]);
  clock.advance(60_000);
  await recorder.flush();
  const { metadata } = sent[0] as { metadata: { name: string } };
  const path = `/apis/events.k8s.io/v1/namespaces/n/events/${metadata.name}`;
  const counted = (count: number) => ({
    path,
    body: { series: { count, lastObservedTime: expect.any(String) } },
  });
  expect(series).toEqual([counted(30)]);
  // A series lasts as long as its Event is repeated.
  for (let minute = 0; minute < 20; minute++) {
    recorder.record(THING, object, happening('x'));
    clock.advance(60_000);
  }
  await recorder.flush();
  expect([sent.length, series.length]).toEqual([1, 21]);
  expect(series.at(-1)).toEqual(counted(50));
});

test('the last count of a series is written before the recorder ends', async () => {
  const { series, recorder } = makeRecorder();
  recorder.record(THING, object, happening('x'));
  recorder.record(THING, object, happening('x'));
  await recorder.flush();
  expect(series).toMatchObject([{ body: { series: { count: 2 } } }]);
});

test('nothing is kept of objects without further Events, however many the first of them has', async () => {
  const { clock, recorder } = makeRecorder();
  const named = (uid: string) => ({ metadata: { ...object.metadata, uid } });
  for (let i = 0; i < 200; i++) {
    recorder.record(THING, named('busy'), happening(String(i)));
    recorder.record(THING, named(`quiet-${i}`), happening('x'));
    await recorder.flush();
    clock.advance(20_000);
  }
  for (let i = 0; i < 40; i++) {
    recorder.record(THING, named('busy'), happening(`later ${i}`));
    await recorder.flush();
    clock.advance(20_000);
  }
  // Events of the last ten minutes, and the buckets of the last two.
  expect(recorder.remembered).toBeLessThan(60);
});
