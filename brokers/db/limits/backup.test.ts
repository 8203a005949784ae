import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PostgresMajor } from '../../../testing/postgres/binaries.ts';
import { type Fixture, intoDatabase, openFixture, query } from '../testing/postgres.ts';

/** What the program beside the server records of its copies, and the database broker says of it. */

const RECORD = readFileSync(new URL('../postgres/backup.sql', import.meta.url), 'utf8');
const FILE = '000000010000000000000007';

describe.each<PostgresMajor>(['15', '16', '17', '18'])('a backup of PostgreSQL %s', (major) => {
  let fixture: Fixture;

  /** As backup.sh does. */
  const record = (copied: string, missing: string, damaged = '') => {
    const url = new URL(intoDatabase(fixture.server.superuserUrl, 'space_registry'));
    const options = {
      ...{ search_path: 'pg_catalog', 'space.copied': copied },
      ...{ 'space.missing': missing, 'space.damaged': damaged },
    };
    const set = Object.entries(options).map(([name, value]) => `-c ${name}=${value}`);
    url.searchParams.set('options', set.join(' '));
    return query(url.href, RECORD);
  };
  const hoursAgo = (hours: number) =>
    new Date(Date.now() - hours * 3_600_000).toISOString().replace(/[-:]|\.\d+/g, '');
  const told = async () => {
    await fixture.broker.round('sizes');
    const [lastCopy, gap, damaged] = await Promise.all(
      ['space_db_last_copy_seconds', 'space_db_log_gap', 'space_db_copy_damaged'].map((name) =>
        fixture.broker.metric(name),
      ),
    );
    return {
      ...{ hours: Math.floor((lastCopy?.get('') ?? -1) / 3_600), gap: gap?.get('') },
      damaged: damaged?.get(''),
    };
  };
  const settled = (mode: 'on' | 'off') =>
    fixture.sql(`ALTER SYSTEM SET archive_mode = ${mode}`).then(async () => {
      await fixture.server.stop();
      await fixture.server.start();
    });

  beforeAll(async () => {
    const settings = { archive_mode: 'on', archive_command: 'true' };
    fixture = await openFixture({ major, settings }, { environment: { SIZE_INTERVAL_MS: '1000000' } });
  });
  afterAll(() => fixture.close());

  it('is nothing where no program records one', async () => {
    expect(await told()).toEqual({ hours: 0, gap: 0, damaged: 0 });
  });

  it('is not recorded in a schema of the broker’s role, whose code would run as superuser', async () => {
    const { brokerUrl } = fixture.server;
    await query(
      brokerUrl,
      `CREATE SCHEMA space_backup;
       CREATE TABLE space_backup.state (since timestamptz, copied_at timestamptz, missing text);
       INSERT INTO space_backup.state VALUES (now());
       CREATE FUNCTION space_backup.seize() RETURNS trigger LANGUAGE plpgsql
         AS $$ BEGIN ALTER ROLE space_broker SUPERUSER; RETURN NEW; END $$;
       CREATE TRIGGER seize BEFORE UPDATE ON space_backup.state FOR EACH ROW EXECUTE FUNCTION space_backup.seize()`,
    );
    await expect(record(hoursAgo(1), '')).rejects.toThrow('the schema space_backup is another role');
    expect(await query(brokerUrl, 'SELECT rolsuper FROM pg_roles WHERE rolname = current_user')).toEqual([
      { rolsuper: false },
    ]);
    await query(brokerUrl, 'DROP SCHEMA space_backup CASCADE');
  });

  it('counts from its begin while it has no copy, then from the newest', async () => {
    await record('', 'unknown');
    expect(await told()).toEqual({ hours: 0, gap: 0, damaged: 0 });
    await fixture.registry("UPDATE space_backup.state SET since = now() - interval '50 hours'");
    expect(await told()).toEqual({ hours: 50, gap: 0, damaged: 0 });
    await record(hoursAgo(30), '');
    expect(await told()).toEqual({ hours: 30, gap: 0, damaged: 0 });
  });

  it('has a gap until the log has none, and keeps what could not be found out', async () => {
    await record(hoursAgo(30), FILE);
    expect(await told()).toEqual({ hours: 30, gap: 1, damaged: 0 });
    await record('', 'unknown');
    expect(await told()).toEqual({ hours: 30, gap: 1, damaged: 0 });
    await record(hoursAgo(2), '');
    expect(await told()).toEqual({ hours: 2, gap: 0, damaged: 0 });
  });

  it('is damaged until the newest copy is whole, and keeps what could not be found out', async () => {
    await record(hoursAgo(2), '', '20261124-143215F');
    expect(await told()).toEqual({ hours: 2, gap: 0, damaged: 1 });
    await record('', 'unknown', 'unknown');
    expect(await told()).toEqual({ hours: 2, gap: 0, damaged: 1 });
    await record(hoursAgo(1), '');
    expect(await told()).toEqual({ hours: 1, gap: 0, damaged: 0 });
  });

  it('is read where an earlier release has recorded it, which knows no damage', async () => {
    await fixture.registry('ALTER TABLE space_backup.state DROP COLUMN damaged');
    expect(await told()).toEqual({ hours: 1, gap: 0, damaged: 0 });
    await record('', 'unknown', '20261124-143215F');
    expect(await told()).toEqual({ hours: 1, gap: 0, damaged: 1 });
  });

  it('is written only when it has changed, since a write makes a file of the log', async () => {
    const at = hoursAgo(3);
    const version = async () => {
      await record(at, '');
      return fixture.registry('SELECT xmin, ctid FROM space_backup.state');
    };
    expect(await version()).toEqual(await version());
  });

  it('can be read by the broker, and not written', async () => {
    const write = query(fixture.server.brokerUrl, 'UPDATE space_backup.state SET missing = NULL');
    await expect(write).rejects.toThrow('permission denied');
  });

  it('counts no more once the backup is switched off', async () => {
    await record(hoursAgo(90), FILE);
    await settled('off');
    expect(await told()).toEqual({ hours: 0, gap: 0, damaged: 0 });
    await settled('on');
    expect(await told()).toEqual({ hours: 90, gap: 1, damaged: 0 });
  });
});
