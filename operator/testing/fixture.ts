import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import type { EmbeddedOptions } from '../../testing/postgres/server.ts';
import type { TestSpace } from './space.ts';
import { openTestEnvironment, type TestEnvironment } from './test-environment.ts';

/** What a test starts from. */
export interface Fixture {
  readonly environment: TestEnvironment;
  /** Its own; nothing works on it before it is started. */
  readonly space: TestSpace;
  readonly home: string;
  /** Databases and roles that were there before it. */
  readonly before: string[];
}

/** Gives a file of tests one environment, and each of its tests a Space; both are closed in the end. */
export function eachFixture(
  begin: (fixture: Fixture) => void | Promise<void>,
  postgres?: EmbeddedOptions,
): void {
  let environment: TestEnvironment | undefined;
  let space: TestSpace | undefined;
  beforeAll(async () => {
    environment = await openTestEnvironment(postgres);
  });
  afterAll(() => environment?.close());
  beforeEach(async () => {
    if (environment === undefined) throw new Error('there is no environment');
    const before = await environment.databases();
    space = await environment.space();
    await begin({ environment, space, home: space.home, before });
  });
  afterEach(() => space?.close());
}
