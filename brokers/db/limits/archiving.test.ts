import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import type { PostgresMajor } from '../../../testing/postgres/binaries.ts';
import { type Fixture, openFixture } from '../testing/postgres.ts';

/** How long the log has waited to be archived, as the metric says it. The command obeys two files beside the data. */

const COMMAND = 'while [ -e ../hold ]; do sleep 0.1; done; [ ! -e ../fail ]';

describe.each<PostgresMajor>(['15', '17', '18'])('archiving of PostgreSQL %s', (major) => {
  let fixture: Fixture;
  const file = (name: string) => join(fixture.server.directory, name);
  const isUnarchived = async () => {
    await fixture.broker.round('sizes');
    return ((await fixture.broker.metric('space_db_unarchived_seconds')).get('') ?? 0) > 0;
  };
  /** Begins another file of the log. */
  const write = async () => {
    await fixture.sql('SELECT pg_current_xact_id()');
    await fixture.sql('SELECT pg_switch_wal()');
  };
  const settled = (wanted: boolean) =>
    eventually(async () => (await isUnarchived()) === wanted, {
      what: `archiving ${wanted ? 'late' : 'done'}`,
    });

  beforeAll(async () => {
    const settings = { archive_mode: 'on', archive_command: COMMAND };
    fixture = await openFixture({ major, settings }, { environment: { SIZE_INTERVAL_MS: '1000000' } });
    await write();
    const archived = 'SELECT FROM pg_stat_archiver WHERE last_archived_wal IS NOT NULL';
    await eventually(async () => (await fixture.sql(archived)).length === 1, { what: 'an archived file' });
  });
  afterAll(async () => {
    for (const name of ['hold', 'fail']) if (existsSync(file(name))) rmSync(file(name));
    await fixture.close();
  });

  it('that fails is late until it succeeds', async () => {
    writeFileSync(file('fail'), '');
    await write();
    await settled(true);
    rmSync(file('fail'));
    await write();
    await settled(false);
  });

  it('that neither fails nor ends is late where the Space makes copies of the server', async () => {
    await fixture.registry(`CREATE SCHEMA space_backup; GRANT USAGE ON SCHEMA space_backup TO space_broker;
      CREATE TABLE space_backup.state AS SELECT now() AS since, now() AS copied_at, NULL::text AS missing;
      GRANT SELECT ON space_backup.state TO space_broker`);
    writeFileSync(file('hold'), '');
    await write();
    await write();
    await settled(true);
    rmSync(file('hold'));
    await settled(false);
  });
});
