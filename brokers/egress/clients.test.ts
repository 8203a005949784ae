import { execFileSync } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ClientFixture, GREETING, openClientFixture, runClient } from './testing/clients.ts';

/**
 * Programs as they are, through a tunnel. Those that a machine may lack are skipped with a line that says so; more of
 * them are in `installed-clients.test.ts`.
 */

let fixture: ClientFixture;
beforeAll(async () => {
  fixture = await openClientFixture();
});
afterAll(() => fixture.close());

const node = (script: string) =>
  runClient(fixture, [process.execPath, '--input-type=module', '-e', script], { cwd: import.meta.dirname });

describe('Node reaches an allowed host by', () => {
  it.each([
    ['fetch', () => `console.log(await (await fetch('${fixture.url}')).text())`],
    [
      'https.get',
      () =>
        `import { get } from 'node:https'; get('${fixture.url}', (answer) => answer.pipe(process.stdout))`,
    ],
    [
      'undici with EnvHttpProxyAgent',
      () =>
        `import { EnvHttpProxyAgent, request } from 'undici';
         const { body } = await request('${fixture.url}', { dispatcher: new EnvHttpProxyAgent() });
         console.log(await body.text())`,
    ],
    [
      'WebSocket',
      () =>
        `const socket = new WebSocket('${fixture.url.replace('https', 'wss')}');
         socket.onmessage = ({ data }) => { console.log(data); process.exit(0); };
         socket.onerror = (error) => { console.error(error); process.exit(1); };`,
    ],
  ])('%s', async (_, script) => {
    expect(await node(script())).toContain(GREETING);
  });

  it('fetch, which reports a refusal', async () => {
    await expect(node(`await fetch('${fixture.deniedUrl}')`)).rejects.toThrow(/403/);
  });
});

function missing(program: string): boolean {
  try {
    execFileSync(program, ['--version'], { stdio: 'ignore' });
    return false;
  } catch {
    console.warn(`skipped: ${program} is not installed here`);
    return true;
  }
}

describe('a program reaches an allowed host:', () => {
  it.skipIf(missing('curl'))('curl, with its credential from the start, or on request', async () => {
    expect(await runClient(fixture, ['curl', '-sSf', fixture.url])).toContain(GREETING);
    const own = ['--proxy', `http://127.0.0.1:${fixture.port}`, '--proxy-user', `egr:${fixture.principal}`];
    fixture.ended();
    expect(await runClient(fixture, ['curl', '-sSf', ...own, '--proxy-anyauth', fixture.url])).toContain(
      GREETING,
    );
    expect(fixture.ended()).toContain('credential_required');
    await expect(runClient(fixture, ['curl', '-sSf', fixture.deniedUrl])).rejects.toThrow(/403/);
  });

  it.skipIf(missing('wget'))('wget', async () => {
    const text = await runClient(fixture, [
      'wget',
      '-qO-',
      `--ca-certificate=${fixture.authority}`,
      fixture.url,
    ]);
    expect(text).toContain(GREETING);
  });

  it.skipIf(missing('git'))('git, which sends no credential at first', async () => {
    fixture.ended();
    const text = await runClient(fixture, ['git', 'ls-remote', `${fixture.url}/repository.git`]);
    expect(text).toContain('refs/heads/main');
    expect(fixture.ended()).toContain('credential_required');
  });
});
