import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Clients, copyDatabase, findClients } from '../../../testing/postgres/clients.ts';
import { type Fixture, openFixture, query } from '../testing/postgres.ts';

/** How a copy handles the settings of a tenant's role, and what it prints of the tenant's rows. */

let clients: Clients;
let fixture: Fixture;
beforeAll(async () => {
  clients = await findClients();
  fixture = await openFixture({ major: clients.major });
});
afterAll(() => fixture?.close());

let names = 0;
/** Two databases, of which the first one is copied into the second one. */
async function pair({ broker }: Pick<Fixture, 'broker'> = fixture) {
  names += 1;
  const id = `copied-${names}`;
  const own = await broker.capsule(id);
  const [from, to]: string[] = [
    (await own.create(id, 'from')).json.database_url,
    (await own.create(id, 'to')).json.database_url,
  ];
  return { from: from ?? '', to: to ?? '' };
}

const complaint = (copy: { from: string; to: string }) =>
  copyDatabase(clients, copy).then(
    () => 'copied',
    (error: Error) => error.message,
  );

describe('a copy', () => {
  it.each([
    ["client_encoding = 'LATIN1'"],
    ["idle_session_timeout = '1ms'"],
    ['standard_conforming_strings = off'],
    ["local_preload_libraries = 'nothing'"],
  ])('is identical if its role has set %s', async (setting) => {
    const { from, to } = await pair();
    await query(
      from,
      `CREATE TABLE price AS SELECT '€ \\' || i AS text FROM generate_series(1, 20000) i;
       ALTER ROLE CURRENT_USER SET ${setting}`,
    );
    expect(await complaint({ from, to })).toBe('copied');
    const superuser = Object.assign(new URL(fixture.server.superuserUrl), { pathname: new URL(to).pathname });
    expect(
      await query(superuser.href, "SELECT count(*)::int AS rows FROM price WHERE text ~ '^€ .[0-9]+$'"),
    ).toEqual([{ rows: 20_000 }]);
  });

  it('has its role’s settings of an extension, which only a session that has loaded it may set', async () => {
    const { from, to } = await pair();
    await query(
      from,
      `CREATE EXTENSION pg_trgm; SELECT similarity('a', 'b');
       ALTER ROLE CURRENT_USER SET pg_trgm.similarity_threshold = 0.71`,
    );
    expect(await complaint({ from, to })).toBe('copied');
    const shown = 'SELECT show_limit()::text AS limit';
    expect(await query(to, shown)).toEqual([{ limit: '0.71' }]);
  });

  it('refuses a database with objects that its tenant added to an extension, which no dump contains', async () => {
    const { from, to } = await pair();
    await query(
      from,
      `CREATE EXTENSION pg_trgm; CREATE TABLE ledger AS SELECT 7 AS a; ALTER EXTENSION pg_trgm ADD TABLE ledger`,
    );
    expect(await complaint({ from, to })).toMatch(
      /what was added to an extension; .*: table public.ledger\n$/,
    );
  });

  it('refuses an extension that the target only has in an earlier version', async () => {
    const { from, to } = await pair();
    await query(from, 'CREATE EXTENSION pg_trgm');
    const superuser = Object.assign(new URL(fixture.server.superuserUrl), {
      pathname: new URL(from).pathname,
    });
    await query(superuser.href, "UPDATE pg_extension SET extversion = '9.9' WHERE extname = 'pg_trgm'");
    expect(await complaint({ from, to })).toMatch(/cannot continue with the version .*: pg_trgm 9.9\n$/);
  });

  it('ends an analysis that does not end', async () => {
    const { from, to } = await pair();
    await query(
      from,
      `CREATE FUNCTION spoil(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
         IF current_database() = '${new URL(to).pathname.slice(1)}' AND current_query() ~ '^ANALYZE' THEN
           PERFORM pg_sleep(3600); END IF; RETURN i; END $$;
       CREATE TABLE spoilt AS SELECT 1 AS i; CREATE INDEX ON spoilt (public.spoil(i))`,
    );
    // An analysis has a tenth of what each other step has.
    expect((await copyDatabase(clients, { from, to }, { COPY_SECONDS: '40' })).bytes).toBeGreaterThan(0);
  });

  it('reports which setting and which large object differ', async () => {
    const { from, to } = await pair();
    const elsewhere = `current_database() = '${new URL(to).pathname.slice(1)}'`;
    // What a tenant does while it is copied, in a way that the copy itself brings about.
    await query(
      from,
      `SELECT lo_from_bytea(4711, 'one');
       CREATE FUNCTION spoil() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
         IF ${elsewhere} THEN PERFORM pg_catalog.lo_from_bytea(4712, 'two'); END IF; RETURN true; END $$;
       CREATE TABLE spoilt (i int CHECK (public.spoil())); INSERT INTO spoilt VALUES (1)`,
    );
    expect(await complaint({ from, to })).toMatch(/^differs: large object 4712\n/m);
  });

  it('is not ended by the transaction_timeout of its role, which servers have since version 17', async () => {
    const work = mkdtempSync(join(tmpdir(), 'space-copy-'));
    const seen = join(work, 'seen');
    // In the place of a program of that version, which machines with tests may lack: it tells what its sessions have.
    writeFileSync(
      join(work, 'pg_dump'),
      `#!/bin/sh
[ "$1" != --version ] || { echo 'pg_dump (PostgreSQL) 17.0'; exit; }
for side in from to; do psql -XAtq -d service=$side -c 'SHOW transaction_timeout' >>"$SEEN"; done
exit 1
`,
    );
    chmodSync(join(work, 'pg_dump'), 0o755);
    const later = await openFixture({ major: '17' });
    try {
      const copy = await pair(later);
      for (const url of [copy.from, copy.to])
        await query(url, "ALTER ROLE CURRENT_USER SET transaction_timeout = '5min'");
      const env = { ...clients.env, PATH: `${work}:${clients.env['PATH']}` };
      await expect(copyDatabase({ ...clients, env }, copy, { SEEN: seen })).rejects.toThrow(
        'the database cannot be dumped',
      );
      expect(readFileSync(seen, 'utf8')).toBe('0\n0\n');
    } finally {
      await later.close();
      rmSync(work, { recursive: true });
    }
  });

  it.each([
    ['the dump of the definitions', 'pg_dump', '--schema-only', /the objects of from cannot be read/],
    ['the list of the dump', 'pg_restore', '--list', /the contents of the dump cannot be listed/],
  ])('fails if %s fails, also on both sides alike', async (_, program, option, says) => {
    const { from, to } = await pair();
    const place = mkdtempSync(join(tmpdir(), 'space-fails-'));
    try {
      const search = clients.env['PATH'] ?? '';
      const script = `#!/bin/sh
for one; do [ "$one" != ${option} ] || exit 1; done
PATH='${search}' exec ${program} "$@"
`;
      writeFileSync(join(place, program), script);
      chmodSync(join(place, program), 0o755);
      const failing = { ...clients, env: { ...clients.env, PATH: `${place}:${search}` } };
      await expect(copyDatabase(failing, { from, to })).rejects.toThrow(says);
    } finally {
      rmSync(place, { recursive: true });
    }
  });

  it('reports why it failed, and nothing of the rows', async () => {
    const { from, to } = await pair();
    const elsewhere = `IF current_database() = '${new URL(to).pathname.slice(1)}' THEN`;
    await query(
      from,
      `CREATE FUNCTION spoil(text text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
         ${elsewhere} RAISE WARNING 'the row is %', text; PERFORM text::int; END IF; RETURN true; END $$;
       CREATE TABLE private (text text CHECK (public.spoil(text)));
       INSERT INTO private VALUES ('a "secret" of theirs')`,
    );
    const said = await complaint({ from, to });
    expect(said).not.toContain('secret');
    expect(said).not.toContain('theirs');
    expect(said).toMatch(/COPY failed for table "private"/);
    expect(said).toMatch(/ERROR: {2}invalid input syntax for type integer: …\n/);
    expect(said).toMatch(/the database cannot be restored\n$/);
  });

  it('reports nothing of rows that cannot be read', async () => {
    const { from, to } = await pair();
    const broken = `CREATE TYPE kind AS ENUM ('theirs'); CREATE TABLE private (kind kind); INSERT INTO private VALUES ('theirs')`;
    await query(from, broken);
    const superuser = Object.assign(new URL(fixture.server.superuserUrl), {
      pathname: new URL(from).pathname,
    });
    await query(superuser.href, "DELETE FROM pg_enum WHERE enumlabel = 'theirs'");
    const said = await complaint({ from, to });
    expect(said).toMatch(/contents of table "private" failed/);
    expect(said).toMatch(/ERROR: {2}invalid internal value for enum: \d+\n/);
    expect(said).not.toContain('COPY');
    expect(said).toMatch(/the database cannot be dumped\n$/);
  });
});
