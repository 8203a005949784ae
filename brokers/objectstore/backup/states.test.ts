import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expireStates, getState, putState, type States } from './states.ts';
import { command, PREFIX, type Servers, startServers, steps } from './testing/buckets.ts';

let servers: Servers;
beforeAll(async () => {
  servers = await startServers();
});
afterAll(() => servers.close());

const DAY_MS = 86_400_000;
const START = new Date('2026-11-01T00:00:00Z');
const day = (number: number) => new Date(START.getTime() + number * DAY_MS);

function statesOf(s3: States['s3']) {
  const clock = steps(START);
  const states: States = { s3, prefix: PREFIX, clock, signal: new AbortController().signal };
  return { states, clock };
}

describe('states of a Space beside the points of its bucket', () => {
  it('returns the newest at or before a time, the oldest if none is so old, the newest without a time', async () => {
    const { states, clock } = statesOf(servers.bucket().s3);
    for (const number of [1, 2, 3]) {
      clock.set(day(number));
      await putState(states, Buffer.from(`state of day ${number}`));
    }
    const text = async (at?: Date) => (await getState(states, at)).toString();
    expect(await text()).toBe('state of day 3');
    expect(await text(day(2.5))).toBe('state of day 2');
    expect(await text(day(9))).toBe('state of day 3');
    expect(await text(day(0))).toBe('state of day 1');
  });

  it('reports where it looked if there is none', async () => {
    await expect(getState(statesOf(servers.bucket().s3).states, undefined)).rejects.toThrow(
      /no state under home\/states\//,
    );
  });

  it('removes old ones, and never the last two', async () => {
    const { states, clock } = statesOf(servers.bucket().s3);
    for (const number of [1, 2, 3]) {
      clock.set(day(number));
      await putState(states, Buffer.from(String(number)));
    }
    clock.set(day(40));
    expect(await expireStates(states, 14)).toBe(1);
    expect((await getState(states, day(1))).toString()).toBe('2');
    expect(await expireStates(states, 14)).toBe(0);
  });

  it('is kept while a kept moment needs it, however old it is', async () => {
    const { states, clock } = statesOf(servers.bucket().s3);
    for (const number of [1, 2, 20, 30]) {
      clock.set(day(number));
      await putState(states, Buffer.from(String(number)));
    }
    clock.set(day(31));
    expect(await expireStates(states, 14)).toBe(1);
    expect((await getState(states, day(18))).toString()).toBe('2');
  });

  it('is stored with a copy, and read back without the identity or the Space’s own key', async () => {
    const [bucket, backup] = [servers.bucket(), servers.bucket()];
    await bucket.s3.put('a', Buffer.from('an object'));
    const names = { bucket: bucket.name, backup: backup.name };
    const file = servers.write('state.age', 'sealed');
    const copied = await command(servers, names, ['copy', '--expire'], { BACKUP_STATE_FILE: file });
    expect(copied).toMatchObject({ code: 0 });
    expect(copied.out.map((line) => JSON.parse(line))).toMatchObject([
      { command: 'copy', objects: 1, state: expect.stringMatching(/^\d{8}T/) },
      { command: 'expire', states: 0 },
    ]);
    const without = { BACKUP_IDENTITY_FILE: '/nowhere', S3_ACCESS_KEY_FILE: '/nowhere' };
    const { code, out } = await command(servers, names, ['state'], without);
    expect([code, Buffer.from(out.join(''), 'base64').toString()]).toEqual([0, 'sealed']);
  });

  it('is not silently skipped: a copy without its state fails', async () => {
    const [bucket, backup] = [servers.bucket(), servers.bucket()];
    const names = { bucket: bucket.name, backup: backup.name };
    const { code, error } = await command(servers, names, ['copy'], { BACKUP_STATE_FILE: '/nowhere' });
    expect([code, error]).toEqual([1, expect.stringContaining('BACKUP_STATE_FILE cannot be read')]);
  });
});
