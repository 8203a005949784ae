import { describe, expect, test } from 'vitest';
import { eventually } from '../../testing/eventually.ts';
import { fakeClock } from '../testing/fake-clock.ts';
import type { ApiClient, ApiRequest } from './client.ts';
import { ApiError, TransportError } from './errors.ts';
import type { KubeObject, Resource } from './kube-object.ts';
import { Recovery } from './recovery.ts';
import { Reflector } from './reflector.ts';
import { Store } from './store.ts';

const THING: Resource = { group: '', version: 'v1', plural: 'things', kind: 'Thing', namespaced: true };
const thing = (name: string, version: number): KubeObject => ({
  metadata: { name, uid: name, resourceVersion: String(version) },
});
const event = (type: string, object: unknown) => JSON.stringify({ type, object });

type Answer = Error | object | readonly string[];

/** An API server that answers by a script: objects to lists, lines to watches, errors to either. */
function scripted(answers: readonly Answer[]) {
  const asked: string[] = [];
  const clock = fakeClock();
  const script = [...answers];
  const forever = Promise.withResolvers<never>();
  forever.promise.catch(() => undefined);
  function next(request: ApiRequest): Answer | undefined {
    const { watch, resourceVersion, continue: page } = request.query ?? {};
    asked.push(watch ? `watch from ${resourceVersion}` : page ? `page ${page}` : 'list');
    const answer = script.shift();
    if (answer instanceof Error) throw answer;
    return answer;
  }
  const client: ApiClient = {
    call: async <T>(request: ApiRequest) => (next(request) ?? (await forever.promise)) as T,
    async lines(request) {
      const lines = (next(request) ?? []) as string[];
      return (async function* () {
        yield* lines;
        if (script.length === 0) await forever.promise;
        throw new TransportError('the stream broke off');
      })();
    },
  };
  const store = new Store<KubeObject>();
  const health: string[] = [];
  const waits: number[] = [];
  const recovery = new Recovery();
  const ending = new AbortController();
  const reflector = new Reflector<KubeObject>({
    client,
    clock,
    resource: THING,
    store,
    recovery,
    onProblem: (_, ms) => waits.push(ms),
  });
  reflector.onHealth(() => health.push(reflector.health));
  const running = reflector.run(ending.signal);
  return {
    asked,
    health,
    waits,
    store,
    recovery,
    reflector,
    names: () => store.list().map(({ metadata }) => `${metadata.name}@${metadata.resourceVersion}`),
    /** Lets time pass until the script is used up. */
    async played() {
      await eventually(
        () => {
          if (script.length > 0) clock.advance(1000);
          return script.length === 0;
        },
        { what: 'the script is played' },
      );
    },
    async end() {
      ending.abort();
      forever.reject(new Error('the test is over'));
      await running;
    },
  };
}

const page = (items: KubeObject[], version: number, next?: string) => ({
  metadata: { resourceVersion: String(version), ...(next ? { continue: next } : {}) },
  items,
});

describe('the reflector', () => {
  test('lists in pages, then watches from the version of the list, through bookmarks', async () => {
    const play = scripted([
      page([thing('a', 1)], 10, 'next'),
      page([thing('b', 2)], 10),
      [event('ADDED', thing('c', 11)), event('BOOKMARK', thing('', 50))],
      [event('DELETED', thing('a', 51))],
    ]);
    await play.played();
    await eventually(() => !play.store.get('a'), { what: 'a is gone' });
    expect(play.asked).toEqual(['list', 'page next', 'watch from 10', 'watch from 50']);
    expect(play.names()).toEqual(['b@2', 'c@11']);
    await play.end();
  });

  test('keeps the store as it was until a whole list is there', async () => {
    const play = scripted([
      page([thing('a', 1)], 1),
      new ApiError({ status: 410, reason: 'Expired', message: 'too old' }),
      page([thing('b', 2)], 2, 'next'),
      new TransportError('broke off'),
      page([thing('c', 3)], 3),
      [],
    ]);
    await play.played();
    expect(play.asked).toEqual(['list', 'watch from 1', 'list', 'page next', 'list', 'watch from 3']);
    expect(play.names()).toEqual(['c@3']);
    await play.end();
  });

  test('lists anew when the watch says that its version is too old', async () => {
    const play = scripted([
      page([thing('a', 1)], 1),
      [event('ERROR', { code: 410, reason: 'Expired', message: 'too old resource version' })],
      page([thing('a', 1), thing('b', 9)], 9),
      [],
    ]);
    await play.played();
    expect(play.asked).toEqual(['list', 'watch from 1', 'list', 'watch from 9']);
    expect(play.names()).toEqual(['a@1', 'b@9']);
    await play.end();
  });

  test.each<[string, Answer]>([
    ['reports an earlier version', [event('BOOKMARK', thing('', 4))]],
    [
      'has no version so late',
      new ApiError({ status: 504, reason: 'Timeout', message: 'Too large resource version: 9, current: 4' }),
    ],
  ])(
    'accepts the present state when the storage was restored from a backup and the watch %s',
    async (_, answer) => {
      const play = scripted([
        page([thing('a', 9), thing('made since', 8)], 9),
        answer,
        page([thing('a', 3)], 4),
        [event('MODIFIED', thing('a', 5))],
      ]);
      await play.played();
      await eventually(() => play.names().includes('a@5'), { what: 'the watch goes on' });
      expect(play.asked).toEqual(['list', 'watch from 9', 'list', 'watch from 4']);
      expect(play.names()).toEqual(['a@5']);
      await play.end();
    },
  );

  test('waits as long as the server asks, and longer with each failure of its kind', async () => {
    const busy = new ApiError({
      status: 429,
      reason: 'TooManyRequests',
      message: 'busy',
      retryAfterMs: 7000,
    });
    const away = new TransportError('no answer');
    const no = new ApiError({ status: 403, reason: 'Forbidden', message: 'not yet' });
    const play = scripted([busy, away, away, away, no, away, page([], 1), []]);
    await play.played();
    expect(play.waits.slice(0, 6)).toEqual([7000, 75, 150, 300, 150, 600]);
    await play.end();
  });

  test('retries at once when the server has answered another request, but only once until it gets an answer itself', async () => {
    const away = new TransportError('no answer');
    const play = scripted([away, away, page([], 1), away, away, [event('ADDED', thing('a', 2))], away, []]);
    const failed = (times: number) =>
      eventually(() => play.waits.length === times, { what: `it fails for the ${times}. time` });
    await failed(1);
    play.recovery.answered();
    await failed(2);
    play.recovery.answered();
    await new Promise((resolve) => setImmediate(resolve));
    expect(play.asked).toEqual(['list', 'list']);
    await play.played();
    await eventually(() => play.store.get('a'), { what: 'it has heard something' });
    expect(play.asked).toHaveLength(8);
    await play.end();
  });

  test('does not shorten a wait that the server itself has asked for', async () => {
    const busy = new ApiError({
      status: 429,
      reason: 'TooManyRequests',
      message: 'busy',
      retryAfterMs: 7000,
    });
    const play = scripted([busy, page([], 1), []]);
    await eventually(() => play.waits.length === 1, { what: 'it is refused' });
    play.recovery.answered();
    await new Promise((resolve) => setImmediate(resolve));
    expect(play.asked).toEqual(['list']);
    await play.played();
    await play.end();
  });

  test('says that it cannot be trusted before the first list, and while the server does not answer', async () => {
    const play = scripted([
      new ApiError({ status: 403, reason: 'Forbidden', message: 'no' }),
      page([thing('a', 1)], 1),
      new ApiError({ status: 403, reason: 'Forbidden', message: 'no' }),
      [],
    ]);
    expect(play.reflector.health).toBe('unsynced');
    await play.played();
    await eventually(() => play.reflector.health === 'current', { what: 'all is well again' });
    expect(play.health).toEqual(['current', 'failing', 'current']);
    await play.end();
  });

  test('loses no event of half a line: the next watch begins before it', async () => {
    const play = scripted([
      page([], 1),
      [event('ADDED', thing('a', 2)), '{"type":"ADDED","obj'],
      [event('ADDED', thing('b', 3))],
    ]);
    await play.played();
    await eventually(() => play.store.size === 2, { what: 'both are there' });
    expect(play.asked).toEqual(['list', 'watch from 1', 'watch from 2']);
    await play.end();
  });
});
