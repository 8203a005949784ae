import type { Readable } from 'node:stream';
import { request } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../testing/eventually.ts';
import type { Browser } from '../testing/browser.ts';
import { startEnvironment, type TestEnvironment } from '../testing/environment.ts';
import { condition, type Subjects, subjects } from '../testing/subjects.ts';

let environment: TestEnvironment;
let made: Subjects;
const open: Readable[] = [];

beforeAll(async () => {
  environment = await startEnvironment();
  made = subjects(environment);
  await made.capsule('household');
  await made.capsule('workshop');
});
afterAll(async () => {
  for (const body of open) body.destroy();
  await environment.close();
});

/** Shorter than a watch, whose end ends a stream as well. */
const BEFORE_ITS_WATCH_ENDS = 150_000;

/** A stream as a browser holds it, with all that has come. */
async function listen(browser: Browser | undefined, page = '/', origin = environment.origin) {
  const cookie = [...(browser?.cookies ?? [])].map(([name, value]) => `${name}=${value}`).join('; ');
  const path = `/live?page=${encodeURIComponent(page)}`;
  const { statusCode, headers, body } = await request(`${origin}${path}`, { headers: { cookie } });
  const came: string[] = [];
  let isOver = false;
  body.setEncoding('utf8').on('data', (text: string) => came.push(text));
  body.on('error', () => {});
  body.on('close', () => {
    isOver = true;
  });
  open.push(body);
  return {
    status: statusCode,
    type: headers['content-type'],
    told: () => came.join('').split('event: changed').length - 1,
    text: () => came.join(''),
    isOver: () => isOver,
    leave: () => body.destroy(),
  };
}

const touch = (name: string) =>
  made.patch('capsules', name, { metadata: { annotations: { touched: String(Math.random()) } } });

describe('a client that listens to a page', () => {
  it('is told that the page has changed, and nothing of its content', async () => {
    const listener = await listen(await environment.signedIn('viewer'));
    expect(listener).toMatchObject({ status: 200, type: 'text/event-stream; charset=utf-8' });
    await touch('household');
    await eventually(() => listener.told() === 1, { what: 'the one change is told' });
    await made.capsule('garden', {}, [condition('Ready', 'False', 'Waiting')]);
    await eventually(() => listener.told() > 1, { what: 'the next changes are told' });
    expect(listener.text()).not.toMatch(/household|garden/);
    listener.leave();
  });

  it('of one Capsule is not told about another', async () => {
    const viewer = await environment.signedIn('viewer');
    const [household, all] = [await listen(viewer, '/capsules/household/credentials'), await listen(viewer)];
    await touch('workshop');
    await eventually(() => all.told() === 1, { what: 'the one change is told' });
    expect(household.told()).toBe(0);
    await touch('household');
    await eventually(() => household.told() === 1, { what: 'the one change is told' });
    household.leave();
    all.leave();
  });

  it('without the right or a sign-in gets a final answer', async () => {
    for (const browser of [undefined, await environment.signedIn('nobody')])
      expect((await listen(browser)).status).toBe(204);
  });

  it('with a HEAD request uses no stream', async () => {
    const viewer = await environment.signedIn('viewer');
    const cookie = [...viewer.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const ask = () => request(`${environment.origin}/live`, { method: 'HEAD', headers: { cookie } });
    const heads = await Promise.all(Array.from({ length: 5 }, ask));
    expect(heads.map(({ statusCode }) => statusCode)).toEqual(Array(5).fill(200));
    const streams = [];
    for (let count = 0; count < 4; count += 1) streams.push(await listen(viewer));
    expect(streams.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    for (const one of streams) one.leave();
  });

  it('in many windows gets four streams at the same time', async () => {
    const viewer = await environment.signedIn('viewer');
    const all = [];
    for (let count = 0; count < 4; count += 1) all.push(await listen(viewer));
    expect(all.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect((await listen(viewer)).status).toBe(503);
    expect((await listen(await environment.signedIn('viewer'))).status).toBe(200);
    for (const one of all) one.leave();
    await eventually(async () => (await listen(viewer)).status === 200, { what: 'a place is free again' });
  });

  it('in many sessions gets twelve streams, and does not affect others', async () => {
    const sessions = [];
    for (let count = 0; count < 4; count += 1) sessions.push(await environment.signedIn('deployer'));
    const all = [];
    for (const one of sessions) for (let count = 0; count < 4; count += 1) all.push(await listen(one));
    const statuses = all.map(({ status }) => status);
    expect(statuses).toEqual([...Array(12).fill(200), ...Array(4).fill(503)]);
    const other = await listen(await environment.signedIn('capsule-admin'));
    expect(other.status).toBe(200);
    for (const one of [...all, other]) one.leave();
  });

  it('gets nothing more after the sign-out', async () => {
    const viewer = await environment.signedIn('viewer');
    const listener = await listen(viewer);
    expect(listener.status).toBe(200);
    await viewer.send(await viewer.get('/'), '/sign-out');
    await eventually(listener.isOver, { what: 'the stream ends', within: BEFORE_ITS_WATCH_ENDS });
  });

  it('gets nothing more when the session ends', async () => {
    const wait = { SESSION_MINUTES: '5' };
    // It stands still while somebody signs in, which may take long on a busy machine.
    let now = new Date();
    const { origin, stop } = await environment.start(wait, () => now);
    const browser = await environment.signedIn('viewer', origin);
    // The time that is left begins with the request, and it has to suffice for opening the stream.
    now = new Date(now.getTime() + 5 * 60_000 - 30_000);
    const listener = await listen(browser, '/', origin);
    expect(listener.status).toBe(200);
    await eventually(listener.isOver, { what: 'the stream ends', within: BEFORE_ITS_WATCH_ENDS });
    await stop();
  });

  it('does not delay the end of a console', async () => {
    const { origin, stop } = await environment.start();
    const listener = await listen(await environment.signedIn('viewer', origin), '/', origin);
    expect(listener.status).toBe(200);
    expect(await stop()).toBe(true);
    await eventually(listener.isOver, { what: 'the stream ends' });
  });
});
