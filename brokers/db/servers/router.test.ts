import { randomBytes } from 'node:crypto';
import { createLogger, digestOf, Secret } from '@space/broker-kit';
import { StepError } from '@space/broker-kit/postgres';
import { beforeEach, describe, expect, it } from 'vitest';
import { oneServer, type Servers, severalServers } from './router.ts';
import type { DatabaseServer, ServerState, Usable } from './server.ts';

/** Servers of which each answers a statement, by its step, as the test says. */

type Answers = Readonly<Record<string, (values: readonly unknown[]) => readonly object[]>>;

interface FakeServer extends DatabaseServer {
  now: ServerState;
  answers: Answers;
  readonly asked: string[];
}

function fake(name: string): FakeServer {
  const read = async (step: string, _text: string, values: readonly unknown[] = []) => {
    one.asked.push(step);
    const answer = one.answers[step];
    if (answer === undefined) throw new StepError(step, new Error('connection lost'));
    return answer(values);
  };
  const session = { read, run: read };
  const usable = {
    context: {
      connections: { lookup: session, transaction: (act: (one: unknown) => unknown) => act(session) },
      connectionLimit: 5,
      failpoint: () => undefined,
    },
  } as unknown as Usable;
  const one: FakeServer = {
    name,
    weight: 1,
    drain: false,
    now: { kind: 'ready' },
    answers: {},
    asked: [],
    state: () => one.now,
    opened: () => usable,
  };
  return one;
}

const principal = digestOf(new Secret(randomBytes(32).toString('base64url')));
const noted = (row: object) => ({
  'find placement': () => [
    { server: null, movingTo: null, onMain: false, notedFor: null, usedHere: false, ...row },
  ],
});
const knows = (capsule?: string) => ({
  'find principal': () => (capsule === undefined ? [] : [{ capsule, state: 'active' }]),
});
const AWAY = { kind: 'unreachable', why: 'it does not answer' } as const;
const unavailable = (message: RegExp, retryAfter: number) =>
  expect.objectContaining({
    code: 'unavailable',
    retryAfter,
    message: expect.stringMatching(message),
  });

let main: FakeServer;
let b: FakeServer;
let lines: string[];
let servers: Servers;
beforeEach(() => {
  [main, b, lines] = [fake('main'), fake('b'), []];
  const destination = { write: (line: string) => void lines.push(line) };
  servers = severalServers([main, b], createLogger({ service: 'test', level: 'info', destination }));
});

it('a single server is not queried for placements', async () => {
  const alone = oneServer(main);
  expect(await alone.of('a')).toBe(main.opened());
  expect(await alone.place('a', principal)).toBe(main.opened());
  await alone.claim('a', principal);
  expect(main.asked).toEqual([]);
});

describe('the server of a Capsule', () => {
  it('is the one in the placement, or main if only main knows the Capsule or none does', async () => {
    main.answers = noted({ server: 'b', onMain: true });
    expect(await servers.of('a')).toBe(b.opened());
    main.answers = noted({ onMain: true });
    expect(await servers.of('a')).toBe(main.opened());
    main.answers = noted({});
    expect(await servers.of('a')).toBe(main.opened());
  });

  it('is none while the Capsule is being moved', async () => {
    main.answers = noted({ server: 'b', movingTo: 'main' });
    await expect(servers.of('a')).rejects.toEqual(unavailable(/^the Capsule is being moved$/, 10));
    await expect(servers.place('a', principal)).rejects.toEqual(unavailable(/moved/, 10));
  });

  it('that is not configured is logged once', async () => {
    main.answers = noted({ server: 'gone' });
    for (const capsule of ['a', 'c'])
      await expect(servers.of(capsule)).rejects.toEqual(unavailable(/gone is not configured/, 60));
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain('"missing":"gone"');
  });

  it('that does not answer affects only its own Capsules', async () => {
    b.now = AWAY;
    main.answers = noted({ server: 'b' });
    await expect(servers.of('a')).rejects.toEqual(unavailable(/^server b: it does not answer$/, 5));
    main.answers = noted({ onMain: true });
    expect(await servers.of('c')).toBe(main.opened());
  });

  it.each<[string, () => unknown]>([
    ['is away', () => Object.assign(main, { now: AWAY })],
    ['loses the connection', () => Object.assign(main, { answers: {} })],
  ])('is remembered while main %s, and those of others are unknown then', async (_, fail) => {
    main.answers = noted({ server: 'b' });
    b.answers = { 'find departure': () => [] };
    await servers.of('a');
    fail();
    expect(await servers.of('a')).toBe(b.opened());
    await expect(servers.of('other')).rejects.toThrow();
    await expect(servers.place('a', principal)).rejects.toThrow();
  });

  it('is asked whether the Capsule has left while main is unavailable', async () => {
    main.answers = noted({ server: 'b' });
    await servers.of('a');
    main.now = AWAY;
    b.answers = { 'find departure': () => [{}] };
    await expect(servers.of('a')).rejects.toEqual(unavailable(/moved/, 10));
    b.answers = {};
    await expect(servers.of('a')).rejects.toThrow();
  });

  it('is forgotten when the Capsule is being moved', async () => {
    main.answers = noted({ server: 'b' });
    await servers.of('a');
    main.answers = noted({ server: 'b', movingTo: 'main' });
    await servers.of('a').catch(() => undefined);
    main.answers = {};
    await expect(servers.of('a')).rejects.toThrow();
  });
});

describe('a principal', () => {
  it('is known if exactly one server knows it, also while another is unavailable', async () => {
    [main.answers, b.answers] = [knows(), knows('a')];
    expect(await servers.findPrincipal(principal)).toMatchObject({ capsule: 'a' });
    main.answers = {};
    expect(await servers.findPrincipal(principal)).toMatchObject({ capsule: 'a' });
    main.now = AWAY;
    expect(await servers.findPrincipal(principal)).toMatchObject({ capsule: 'a' });
  });

  it('is unknown if two servers know it, and undecided while one that may know it is unavailable', async () => {
    const stays = { 'find moving principal': () => [] };
    [main.answers, b.answers] = [{ ...knows('a'), ...stays }, knows('a')];
    expect(await servers.findPrincipal(principal)).toBeUndefined();
    [main.answers, b.now] = [{ ...knows(), ...stays }, AWAY];
    await expect(servers.findPrincipal(principal)).rejects.toEqual(unavailable(/may know/, 5));
  });
});

describe('the principal of a Capsule that is being moved', () => {
  const moves = { 'find moving principal': () => [{}] };
  it.each<[string, string | undefined]>([
    ['that two servers know', 'a'],
    ['that none knows', undefined],
  ])('%s, is told to retry', async (_, capsule) => {
    [main.answers, b.answers] = [{ ...knows(capsule), ...moves }, knows(capsule)];
    await expect(servers.findPrincipal(principal)).rejects.toEqual(unavailable(/moved/, 10));
  });
});

describe('a Capsule that is provisioned', () => {
  const taken = () => expect.objectContaining({ code: 'conflict', message: 'the principal is in use' });
  /** Behaves like a registry that stores placements. */
  const registry = (row: object, whose = 'a') => {
    let server: unknown;
    return {
      ...noted(row),
      'list latest placements': () => [],
      'count capsules': () => [{ count: 0 }],
      'sum connections': () => [{ others: 0, own: 0, capacity: 10 }],
      'lock placement': () => [],
      'note placement': ([, to]: readonly unknown[]) => {
        server = to;
        return [];
      },
      'read placement': () => [{ server, movingTo: null }],
      'note principal': () => [],
      'read noted principal': () => [{ capsule: whose }],
      'find used principal': () => [],
    };
  };
  const onB = (capsules: number, others = 0) => ({
    'find used principal': () => [],
    'count capsules': () => [{ count: capsules }],
    'sum connections': () => [{ others, own: 0, capacity: 10 }],
  });

  it('gets a placement with its principal before anything is created for it', async () => {
    [main.answers, b.answers] = [registry({}), onB(0)];
    expect(await servers.place('a', principal)).toBe(main.opened());
    expect(main.asked.slice(-5)).toEqual([
      'lock placement',
      'note placement',
      'read placement',
      'note principal',
      'read noted principal',
    ]);
  });

  it('is placed where another broker has placed it', async () => {
    main.answers = { ...registry({}), 'read placement': () => [{ server: 'b', movingTo: null }] };
    b.answers = onB(9);
    expect(await servers.place('a', principal)).toBe(b.opened());
  });

  it('needs one look-up once it is placed', async () => {
    main.answers = noted({ server: 'b', notedFor: 'a' });
    expect(await servers.place('a', principal)).toBe(b.opened());
    expect([main.asked, b.asked]).toEqual([['find placement'], []]);
  });

  it('is not placed on a server without capacity, or on any other', async () => {
    const full = { 'sum connections': () => [{ others: 6, own: 0, capacity: 10 }] };
    [main.answers, b.answers] = [{ ...registry({}), ...full }, onB(0)];
    expect(await servers.place('a', principal)).toBe(b.opened());
    b.answers = onB(0, 6);
    await expect(servers.place('a', principal)).rejects.toMatchObject({ code: 'quota_exceeded' });
    b.now = AWAY;
    await expect(servers.place('a', principal)).rejects.toMatchObject({ code: 'unavailable' });
  });

  it.each<[string, () => unknown]>([
    ['was noted for another', () => Object.assign(main, { answers: registry({}, 'other') })],
    [
      'main has or had, where the Capsule is elsewhere',
      () => Object.assign(main, { answers: registry({ server: 'b', usedHere: true }) }),
    ],
    [
      'another server has or had',
      () => Object.assign(b, { answers: { ...onB(0), 'find used principal': () => [{}] } }),
    ],
  ])('is refused a principal that %s', async (_, arrange) => {
    [main.answers, b.answers] = [registry({}), onB(0)];
    arrange();
    await expect(servers.place('a', principal)).rejects.toEqual(taken());
  });

  it('may have a principal that its own server knows, which decides', async () => {
    main.answers = registry({ onMain: true, usedHere: true });
    b.answers = onB(0);
    expect(await servers.place('a', principal)).toBe(main.opened());
  });

  it('may not get a replacement principal that is in use', async () => {
    main.answers = registry({}, 'other');
    await expect(servers.claim('a', principal)).rejects.toEqual(taken());
  });
});
