import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makePki, type TestPki } from '../../testing/certificates.ts';
import { eventually } from '../../testing/eventually.ts';
import { startUpstream, type TestUpstream } from './testing/upstream.ts';

const VALUE = ['sk', 'live', 'canary', 'e1f0b7c9'].join('_');
const MANIFEST = {
  platform: {
    spec: 1,
    id: 'ledger',
    version: '1.0.0',
    name: 'Ledger',
    summary: 'Keeps books',
    description: 'Keeps books.',
    creators: ['@ada-l'],
    github: 'https://github.com/ada-l/ledger',
    genesis: 'Keep books.',
  },
  network: { allowed_hosts: [] },
  stored_inputs: {
    bank: {
      kind: 'password',
      label: 'Key',
      description: 'A key.',
      help_url: 'https://help.bank.org/keys',
      host: 'api.bank.org',
      routes: [{ method: 'GET', path: '/v1/rates' }],
      header: 'X-Api-Key',
    },
  },
};

let directory: string;
let pki: TestPki;
let upstream: TestUpstream;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'space-egress-dev-'));
  pki = await makePki();
  upstream = await startUpstream(await pki.issue('api.bank.org'));
  upstream.answer = (incoming, response) => response.end(JSON.stringify(incoming.headers));
  writeFileSync(join(directory, 'manifest.json'), JSON.stringify(MANIFEST));
  writeFileSync(join(directory, 'ca.pem'), pki.authority);
});
afterAll(async () => {
  await upstream.close();
  await pki.remove();
  rmSync(directory, { recursive: true, force: true });
});

function start(flags: readonly string[], ...args: readonly string[]): ChildProcess {
  const program = join(import.meta.dirname, 'dev.ts');
  const given = ['--manifest', join(directory, 'manifest.json'), '--ca', join(directory, 'ca.pem'), ...args];
  return spawn(process.execPath, [...flags, program, ...given], {
    stdio: ['ignore', 'pipe', 'pipe'],
    cwd: directory,
  });
}

interface Ready {
  readonly service: string;
  readonly proxy_url: string;
  readonly inputs_url: string;
  readonly principal: string;
}

async function ready(child: ChildProcess): Promise<Ready> {
  const [line] = await once(child.stdout?.setEncoding('utf8') as NodeJS.ReadableStream, 'data');
  return JSON.parse(line);
}

function get(url: string, principal: string): Promise<string> {
  return new Promise((resolve, reject) => {
    request(url, { headers: { authorization: `Bearer ${principal}` } }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk) => {
        text += chunk;
      });
      response.on('end', () => resolve(text));
    })
      .on('error', reject)
      .end();
  });
}

describe('the gateway on loopback for one manifest', () => {
  it('injects, and keeps no copy of a value once its requests are over', async () => {
    // Read by the process from its arguments, like a person's shell history: so the canary is a needle cut in two here.
    const child = start(
      ['--heapsnapshot-signal=SIGUSR2'],
      '--input',
      `bank=${VALUE}`,
      '--resolve',
      `api.bank.org=127.0.0.1:${upstream.port}`,
    );
    try {
      const told = await ready(child);
      expect(told).toMatchObject({
        service: 'egress',
        proxy_url: expect.stringMatching(/^http:\/\/egr:spc_egr_[\w-]{43}@127\.0\.0\.1:\d+$/),
        inputs_url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/i$/),
      });
      for (let i = 0; i < 50; i++) {
        const answer = await get(`${told.inputs_url}/bank/v1/rates`, told.principal);
        expect(JSON.parse(answer)['x-api-key']).toBe('*'.repeat(VALUE.length));
      }
      expect(upstream.seen.at(-1)?.rawHeaders).toContain(VALUE);
      child.kill('SIGUSR2');
      const snapshot = await eventually(
        () => readdirSync(directory).find((name) => name.endsWith('.heapsnapshot')),
        { what: 'the heap snapshot' },
      );
      const text = await eventually(
        () => {
          const read = readFileSync(join(directory, snapshot), 'utf8');
          return read.trimEnd().endsWith('}') ? read : undefined;
        },
        { what: 'the heap snapshot is whole' },
      );
      const copies = text.split(VALUE).length - 1;
      // The command line itself, `KEY=VALUE` and cut out of it, is what this way of starting cannot be without.
      const fromArguments = text.split(`bank=${VALUE}`).length - 1;
      expect(copies - fromArguments).toBeLessThanOrEqual(1);
    } finally {
      child.kill('SIGTERM');
      await once(child, 'exit');
    }
  });

  it.each([
    ['no value for an input', [], /--input is required for: bank/],
    ['an input that nobody asked for', ['--input', 'bank=x', '--input', 'other=x'], /no stored input other/],
    ['a bad map', ['--input', 'bank=x', '--resolve', 'api.bank.org'], /not HOST=ADDRESS:PORT/],
  ])('does not start with %s', async (_, args, said) => {
    const child = start([], ...args);
    let text = '';
    child.stderr?.setEncoding('utf8').on('data', (chunk) => {
      text += chunk;
    });
    // It may have ended before what it said has come.
    const [code] = await once(child, 'close');
    expect(code).toBe(2);
    expect(text).toMatch(said);
  });
});
