import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CASES, missingProgram, runCase } from '../../testing/soak/compat-egress/cases.ts';
import { type ClientFixture, openClientFixture } from './testing/clients.ts';

/** Java, Go, Python, a browser and packages of npm; the latter and Python's are fetched once. */

let fixture: ClientFixture;
beforeAll(async () => {
  fixture = await openClientFixture();
});
afterAll(() => fixture.close());

describe('through a tunnel an allowed host is reached, or a client is refused as the table says, by', () => {
  for (const one of CASES) {
    const missing = missingProgram(one);
    if (missing !== undefined) console.warn(`skipped: ${one.client}, since ${missing} is not installed here`);
    it.skipIf(missing !== undefined)(one.client, async () => {
      await expect(runCase(fixture, one)).resolves.toBeUndefined();
    });
  }
});
