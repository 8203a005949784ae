/** What one person, who may sign in and little else, takes of the console from all others. */
import { Agent } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../testing/eventually.ts';
import { openTcpProxy, type TcpProxy } from '../testing/tcp-proxy.ts';
import { Browser } from './testing/browser.ts';
import { startEnvironment, type TestEnvironment } from './testing/environment.ts';
import { subjects } from './testing/subjects.ts';

let environment: TestEnvironment;
let line: TcpProxy;
let origin: string;

beforeAll(async () => {
  environment = await startEnvironment();
  await subjects(environment).capsule('household');
  line = await openTcpProxy({ port: Number(new URL(environment.policyServer.server.url).port) });
  ({ origin } = await environment.start({ KUBERNETES_URL: `https://127.0.0.1:${line.port}` }));
});
afterAll(async () => {
  await environment.close();
  await line.close();
});

describe('one person who requests fifty pages at once', () => {
  it('gets a few at a time, in any number of sessions, and waits for the others', async () => {
    const agent = new Agent({ connections: 50 });
    const windows: Browser[] = [];
    for (const one of await Promise.all([1, 2].map(() => environment.signedIn('viewer', origin)))) {
      const window = new Browser(origin, agent);
      for (const [name, value] of one.cookies) window.cookies.set(name, value);
      windows.push(window);
    }
    line.hold(true);
    const answered: number[] = [];
    const pages = windows.flatMap((window) =>
      Array.from({ length: 25 }, async () => {
        const { status } = await window.once('GET', '/capsules');
        answered.push(status);
      }),
    );
    // While the API server says nothing, only what is refused is answered.
    await eventually(() => answered.length >= 10, { what: 'those beyond what may wait' });
    const before = [...answered];
    line.hold(false);
    await Promise.all(pages);
    expect(before).toEqual(Array(10).fill(429));
    expect(answered.filter((status) => status === 200)).toHaveLength(40);
    await agent.close();
  });
});
