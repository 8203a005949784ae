import { appendFileSync, cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLogger } from '@space/broker-kit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../testing/eventually.ts';
import { freePort } from '../testing/ports.ts';
import { readConfig } from './config.ts';
import { startReloading } from './reloading.ts';
import type { Browser } from './testing/browser.ts';
import { PATIENT, startEnvironment, type TestEnvironment } from './testing/environment.ts';

let environment: TestEnvironment;
let console_: Awaited<ReturnType<typeof startReloading>>;
let browser: Browser;
const html = mkdtempSync(join(tmpdir(), 'space-html-'));

beforeAll(async () => {
  environment = await startEnvironment();
  for (const name of ['style.css', 'live.js'])
    cpSync(join(import.meta.dirname, 'html', name), join(html, name));
  const port = await freePort();
  const origin = `http://localhost:${port}`;
  const config = readConfig({ ...environment.variables, ORIGINS: origin, LISTEN_PORT: String(port) });
  console_ = await startReloading({
    config,
    log: createLogger({ service: 'console', level: 'fatal' }),
    html,
    patience: PATIENT,
  });
  browser = await environment.signedIn('viewer', origin);
});
afterAll(async () => {
  await console_?.stop();
  await environment?.close();
  rmSync(html, { recursive: true });
});

describe('a console that reloads', () => {
  it.each(['style.css', 'live.js'])(
    'serves the changed %s under another name, and people stay signed in',
    async (name) => {
      const address = async () => {
        const page = await browser.get('/sandbox');
        return new RegExp(`/assets/[0-9a-f]{16}/${name}`).exec(page.html)?.[0];
      };
      const before = await address();
      appendFileSync(join(html, name), '\n/* changed */\n');
      // It may restart more than once, since one write can be several events.
      const file = await eventually(
        async () => {
          const now = await address();
          return now !== undefined && now !== before && (await browser.once('GET', now));
        },
        { what: 'another name' },
      );
      expect(file.html).toMatch(/\/\* changed \*\/\n$/);
    },
  );
});
