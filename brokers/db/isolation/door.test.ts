import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Fixture, intoDatabase, openFixture, sqlstate } from '../testing/postgres.ts';

/** Who gets as far as a session before anything of a database says that it may not. */

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture({ asInImage: true });
});
afterAll(() => fixture.close());

it('a tenant is refused at every database except its own before it occupies a connection there', async () => {
  const urlOf = async (id: string): Promise<string> => {
    const capsule = await fixture.broker.capsule(id);
    return (await capsule.create(id, 'app')).json.database_url;
  };
  const [url, other] = [await urlOf('home'), await urlOf('office')];
  expect(await sqlstate(url)).toBe('ok');
  const names = await fixture.sql<{ name: string }>('SELECT datname::text AS name FROM pg_database');
  const own = new URL(url).pathname.slice(1);
  const others = names.map(({ name }) => name).filter((name) => name !== own);
  expect(others).toEqual(expect.arrayContaining([new URL(other).pathname.slice(1), 'space_registry']));
  const answers = await Promise.all(others.map((name) => sqlstate(intoDatabase(url, name))));
  // No line of pg_hba.conf is for it: with one, it would authenticate and then lack the right to connect.
  expect(new Set(answers)).toEqual(new Set(['28000']));
});
