import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import type { EmbeddedOptions } from '../../testing/postgres/server.ts';
import type { TestSpace } from './space.ts';
import { openTheatre, type Theatre } from './stage.ts';

/** What a test starts from. */
export interface Scene {
  readonly theatre: Theatre;
  /** Its own; nothing works on it before it is started. */
  readonly space: TestSpace;
  readonly home: string;
  /** Databases and roles that were there before it. */
  readonly before: string[];
}

/** Gives a file of tests one theatre, and each of its tests a Space; both are closed in the end. */
export function eachScene(begin: (scene: Scene) => void | Promise<void>, postgres?: EmbeddedOptions): void {
  let theatre: Theatre | undefined;
  let space: TestSpace | undefined;
  beforeAll(async () => {
    theatre = await openTheatre(postgres);
  });
  afterAll(() => theatre?.close());
  beforeEach(async () => {
    if (theatre === undefined) throw new Error('there is no theatre');
    const before = await theatre.databases();
    space = await theatre.space();
    await begin({ theatre, space, home: space.home, before });
  });
  afterEach(() => space?.close());
}
