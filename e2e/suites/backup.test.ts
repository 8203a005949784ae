/** A Capsule is restored beside the running one; then a whole Space is lost, and restored from its backup. */
import { type ExecFileException, execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { applyExamples, runDemo } from '../space/example.ts';
import { killedIn, stepsToKill } from './support/cut-short.ts';
import {
  acceptedOf,
  type Credentials,
  currentCredentials,
  EVERY_CREDENTIAL,
  exchange,
} from './support/held-credentials.ts';
import { granted, type Provider, startProvider } from './support/own-bucket.ts';
import { helm, install, uninstall, valuesForAnother } from './support/releases.ts';
import { gone, installed, kube, ledgerOf, OWN_ENGINES, ready, unique } from './support/space.ts';
import { until } from './support/until.ts';

const name = unique('ark');
const ark = { space: name, namespace: name };
const arkServices = `${name}-services`;
const RESTORE = resolve(import.meta.dirname, '../restore/main.ts');

/** Objects that a dump, or the program that loads it, could fail on, or be deceived by. */
const ODD = `
  CREATE EXTENSION vector;
  CREATE SCHEMA mine;
  CREATE FUNCTION mine.checked(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
    IF (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN RAISE 'run as superuser'; END IF;
    RETURN $1;
  END $$;
  CREATE TABLE mine.hidden (word text, meaning public.vector(2));
  INSERT INTO mine.hidden VALUES ('a', '[1,2]'), ('b', '[3,4]');
  CREATE INDEX ON mine.hidden (mine.checked(word));
  ALTER TABLE mine.hidden ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
  CREATE MATERIALIZED VIEW mine.counted AS SELECT count(*) FROM mine.hidden;
  SELECT lo_from_bytea(424242, 'large');
  ALTER ROLE CURRENT_USER SET search_path = public, mine;`;
/** Describes all of these, as far as their owner can see them. */
const ODD_TOLD = `
  ALTER TABLE mine.hidden NO FORCE ROW LEVEL SECURITY;
  SELECT json_build_object(
    'rows', (SELECT json_agg(word || meaning::text ORDER BY word) FROM mine.hidden),
    'large', convert_from(lo_get(424242), 'UTF8'),
    'extension', (SELECT extowner::regrole::text = current_user FROM pg_extension WHERE extname = 'vector'),
    'strangers', (SELECT json_agg(relname) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
      WHERE nspname IN ('public', 'mine') AND relowner <> current_user::regrole));`;

describe.skipIf(OWN_ENGINES !== undefined)('a Space with a backup (of the PostgreSQL of the chart)', () => {
  let directory: string;
  let provider: Provider;
  let inside: string;
  let moment: string;
  let oldUrl: string;
  /** Credentials that had been retired before the moment, those of the moment, and those created after it. */
  let retired: Credentials;
  let ofThen: Credentials;
  let ofLater: Credentials;

  const file = (of: string) => join(directory, of);
  /** The API server's proxy learns of a ready pod a moment later than others. */
  const asked = (within: string, path: string, body?: unknown) =>
    until(`the ledger to answer ${path}`, () => ledgerOf(within, name)(path, body));
  const entry = (description: string) =>
    asked(inside, '/entries', {
      description,
      idempotency_key: description.replaceAll(' ', '-'),
      lines: [
        { account: 'expenses:ark', currency: 'EUR', amount: '10.00' },
        { account: 'assets:bank', currency: 'EUR', amount: '-10.00' },
      ],
    });
  /** The expenses that the ledger has recorded. */
  const spent = async (within = inside) => {
    const { balances } = (await asked(within, '/balances')) as {
      balances: { account: string; balance: string }[];
    };
    return balances.find(({ account }) => account === 'expenses:ark')?.balance;
  };
  const story = () => until('the ledger to answer', () => runDemo(kube, inside, ledgerOf(inside, name)));
  /** Runs a program in the container beside the server, as the server's superuser. */
  const beside = async (...program: string[]) => {
    const exec = ['exec', '-n', arkServices, 'postgres-0', '-c', 'backup', '--', ...program];
    const { code, stdout, stderr } = await kube.run(exec);
    if (code !== 0) throw new Error(stderr || stdout);
    return stdout.trim();
  };
  const sql = (statement: string) =>
    beside('psql', '-XAtqU', 'postgres', '-h', '/run/postgresql', '-c', statement, 'postgres');
  /** Runs a statement in the ledger's database, with the credentials of its URL. */
  const asTenant = async (within: string, statement: string) => {
    const { username, password, pathname } = new URL(
      await secretOf('ledger-database', 'DATABASE_URL', within),
    );
    const to = `host=127.0.0.1 sslmode=require user=${username} password=${password} dbname=${pathname.slice(1)}`;
    return beside('psql', '-XAtqv', 'ON_ERROR_STOP=1', '-c', statement, to);
  };
  const object = (method: string, ...body: string[]) => objectIn(inside, method, ...body);
  const objectIn = (within: string, method: string, ...body: string[]) =>
    granted(within, 'ledger', method, '/v1/objects/data/statement', ...body);
  const secretOf = async (of: string, key: string, within = inside) => {
    const secret = await kube.get('secret', of, within);
    return Buffer.from(secret?.['data'][key] ?? '', 'base64').toString();
  };
  /** Runs the command as a user would; resolves with its result. */
  const run = (
    args: readonly string[],
    ended: (error: ExecFileException | null, out: string, err: string) => void,
  ) =>
    execFile(
      process.execPath,
      [RESTORE, '--identity', file('identity'), '--space', name, ...args],
      { env: { ...process.env, SPACE_CLUSTER: installed.cluster } },
      ended,
    );
  const restore = (...more: string[]) =>
    new Promise<{ code: number; said: string }>((done) => {
      const args = ['--values', file('values.json'), '--key', file('key')];
      run([...args, ...more], (error, out, err) =>
        done({ code: error === null ? 0 : 1, said: `${out}${err}` }),
      );
    });
  const putBack = (...args: string[]) =>
    new Promise<{ code: number; said: string; told: { notRestored?: string[] } }>((done) => {
      run(['--capsule', ...args], (error, out, err) => {
        done({
          code: error === null ? 0 : 1,
          said: `${out}${err}`,
          told: error === null ? JSON.parse(out) : {},
        });
      });
    });
  async function backUp(): Promise<void> {
    const job = unique('backup');
    await kube.run(['create', 'job', job, '--from=cronjob/backup', '-n', arkServices]);
    await until('the backup to be done', async () => {
      const found = await kube.get('job', job, arkServices);
      if (found?.['status']?.failed > 0) {
        const { stdout } = await kube.run(['logs', `job/${job}`, '-n', arkServices, '--all-containers']);
        throw new Error(stdout);
      }
      return found?.['status']?.succeeded === 1;
    });
  }

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'space-backup-'));
    provider = await startProvider(unique('vault'));
    const identity = await generateIdentity();
    const values = {
      ...(await valuesForAnother()),
      existingSecrets: { backupS3: 'backup-s3' },
      backup: {
        enabled: true,
        recipient: await identityToRecipient(identity),
        postgres: { archiveSeconds: 5 },
        // With the default limit of the processor, the suite would wait most of its time.
        resources: { limits: { cpu: '1', memory: '384Mi' } },
        s3: provider.external,
      },
    };
    const { 'access-key-id': access, 'secret-access-key': secret } = provider.fields;
    await writeFile(file('values.json'), JSON.stringify(values));
    await writeFile(file('identity'), `# made for a test\n${identity}\n`);
    await writeFile(file('key'), `access-key=${access}\nsecret-key=${secret}\n`, { mode: 0o600 });
    await install(ark, values);
    await kube.apply({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'backup-s3', namespace: arkServices },
      stringData: { 'access-key': access, 'secret-key': secret },
    });
    await applyExamples(kube, ark, installed.image);
    inside = (await ready('capsule', 'household', name)).status.namespace;
    await ready('assistant', 'ledger', name);
  });

  afterAll(async () => {
    await kube.remove('capsule', 'household', name);
    await gone('capsule', 'household', name);
    await uninstall(ark, provider.namespace);
    await rm(directory, { recursive: true, force: true });
  });

  it('copies rows, objects, keys and Capsules, which cannot be read from the bucket alone', async () => {
    await story();
    expect(await object('PUT', 'the-first-statement')).toMatchObject({ status: 200 });
    await until('a copy of the server', async () => /^\S+F$/m.test(await copies()));
    await backUp();
    for (const text of ['Groceries, paid by card', 'the-first-statement', 'household', 'statement'])
      expect(await provider.holds(text)).toBe(0);
  });

  it('has exchanged credentials, and refuses the former ones', async () => {
    retired = await currentCredentials(name, inside, 'household', 'ledger');
    expect(await acceptedOf(name, retired, 'household', 'ledger')).toEqual(EVERY_CREDENTIAL);
    await exchange(name, inside, 'household', 'ledger');
    await ready('assistant', 'ledger', name);
    ofThen = await currentCredentials(name, inside, 'household', 'ledger');
    expect(await acceptedOf(name, ofThen, 'household', 'ledger')).toEqual(EVERY_CREDENTIAL);
    expect(await acceptedOf(name, retired, 'household', 'ledger')).toEqual([]);
  });

  const pgBackRest = (...args: string[]) =>
    beside('pgbackrest', '--config=/run/postgresql/pgbackrest.conf', '--stanza=space', ...args);
  const copies = () => pgBackRest('repo-ls', 'backup/space');
  const made = () => pgBackRest('--output=json', 'info');

  it('archives what is written after that, too', async () => {
    await asTenant(inside, ODD);
    await entry('Ropes for the ark');
    moment = await sql('SELECT clock_timestamp()');
    await entry('A mistake');
    expect(await spent()).toBe('20.00');
    await sql('SELECT pg_switch_wal()');
    await until('the log to be archived', async () => {
      const behind = 'SELECT last_archived_time > $now FROM pg_stat_archiver';
      return (await sql(behind.replace('$now', `'${moment}'`))) === 't';
    });
    oldUrl = await secretOf('ledger-database', 'DATABASE_URL');
  });

  it('is not overwritten while it exists', async () => {
    const { code, said } = await restore();
    expect([code, said]).toEqual([1, expect.stringContaining(`the release ${name} is installed`)]);
  });

  it('restores a lost Secret, and keeps an existing one', async () => {
    const lost = 'egress-keys';
    const before = (await kube.get('secret', lost, arkServices))?.['data'];
    const putOneBack = () =>
      new Promise<string>((done) => {
        run(['--secret', lost], (_, out, err) => done(`${out}${err}`));
      });
    expect(await putOneBack()).toContain('a restore does not overwrite it: delete it first');
    await kube.remove('secret', lost, arkServices);
    await gone('secret', lost, arkServices);
    expect(await putOneBack()).toContain(`"${arkServices}"`);
    expect((await kube.get('secret', lost, arkServices))?.['data']).toEqual(before);
  });

  describe('one Capsule of it', () => {
    const at = () => new Date(moment).toISOString();
    const nothingIsLeft = async () => {
      for (const kind of ['pod', 'networkpolicy'])
        await until(`no ${kind} of a restore`, async () => {
          const { stdout } = await kube.run([
            'get',
            kind,
            '-n',
            arkServices,
            '-l',
            'platform.space/restore',
            '-o',
            'name',
          ]);
          return stdout === '';
        });
    };

    it.each<[string, () => readonly [string, ...string[]], RegExp]>([
      [
        'over an existing one',
        () => ['household', '--at', at()],
        /household exists, and a restore does not overwrite it.*--as OTHER, or delete it/,
      ],
      ['that did not exist then', () => ['cellar', '--at', at()], /has no Capsule cellar. It has: household/],
      [
        'from before the first copy',
        () => ['household', '--as', 'attic', '--at', '2020-01-01T00:00:00Z'],
        /oldest copy of the database was made at/,
      ],
      [
        'from a time in the future',
        () => ['household', '--as', 'attic', '--at', '2999-01-01T00:00:00Z'],
        /is in the future/,
      ],
      ['under an invalid name', () => ['household', '--as', 'An Attic'], /cannot be a Capsule's name/],
    ])('is not restored %s', async (_, args, says) => {
      const { code, said } = await putBack(...args());
      expect([code, said]).toEqual([1, expect.stringMatching(says)]);
      expect(await kube.get('capsule', 'attic', name)).toBeUndefined();
    });

    it('is not restored with another identity, or under a name that has data', async () => {
      await writeFile(file('another'), await generateIdentity());
      const stranger = await putBack('household', '--as', 'attic', '--identity', file('another'));
      expect(stranger.said).toContain('encrypted for another recipient');
      const secret = { name: 'capsule-attic-database', namespace: `${name}-system` };
      await kube.apply({ apiVersion: 'v1', kind: 'Secret', metadata: secret });
      const kept = await putBack('household', '--as', 'attic', '--at', at());
      expect([kept.code, kept.said]).toEqual([1, expect.stringContaining('the data of an earlier Capsule')]);
      await kube.remove('secret', secret.name, secret.namespace);
      await gone('secret', secret.name, secret.namespace);
      expect(await kube.get('capsule', 'attic', name)).toBeUndefined();
      await nothingIsLeft();
    });

    it('is restored beside the existing one as it was before an error, and the existing one is unchanged', async () => {
      expect(await object('PUT', 'spoilt')).toMatchObject({ status: 200 });
      const { code, said, told } = await putBack('household', '--as', 'attic', '--at', at());
      expect([code, said]).toEqual([0, expect.stringContaining('"assistants": 1')]);
      expect(told).toMatchObject({ capsule: 'attic', from: 'household', waiting: [] });
      expect(told.notRestored).toContainEqual(expect.stringContaining('URLs, tokens and principals'));
      const attic = (await ready('capsule', 'attic', name)).status.namespace;
      await ready('assistant', 'attic-ledger', name);
      expect(await spent(attic)).toBe('10.00');
      expect(await objectIn(attic, 'GET')).toMatchObject({ status: 200, text: 'the-first-statement' });
      const odd = { rows: ['a[1,2]', 'b[3,4]'], large: 'large', extension: true, strangers: null };
      expect(JSON.parse(await asTenant(attic, ODD_TOLD))).toEqual(odd);
      expect(await spent()).toBe('20.00');
      expect(await object('GET')).toMatchObject({ status: 200, text: 'spoilt' });
      expect(await secretOf('ledger-database', 'DATABASE_URL')).toBe(oldUrl);
      await nothingIsLeft();
      await kube.remove('capsule', 'attic', name);
      await gone('capsule', 'attic', name);
    });

    it('is restored under its own name when it was deleted, by a command that is repeated', async () => {
      await kube.remove('capsule', 'household', name);
      await gone('capsule', 'household', name);
      const early = Promise.withResolvers<string>();
      const cut = run(['--capsule', 'household', '--at', at()], (_, out, err) =>
        early.resolve(`${out}${err}`),
      );
      const made = until(
        'the Capsule to be made',
        async () => (await kube.get('capsule', 'household', name)) !== undefined,
      );
      expect(await Promise.race([made, early.promise])).toBe(true);
      cut.kill('SIGKILL');
      const other = await putBack('household');
      expect(other.said).toMatch(/was interrupted \(household as of .*\): run that one again/);
      const { code, said } = await putBack('household', '--at', at());
      expect([code, said]).toEqual([0, expect.stringContaining('"assistants": 1')]);
      await ready('assistant', 'ledger', name);
      expect(await spent()).toBe('10.00');
      expect(await object('GET')).toMatchObject({ status: 200, text: 'the-first-statement' });
      await nothingIsLeft();
    });
  });

  /** Removes the Space without its operator, as a lost cluster does. */
  async function lose(): Promise<void> {
    await helm(ark, ['uninstall', name, '--no-hooks']);
    for (const [kind, of] of [
      ['assistant', 'ledger'],
      ['capsule', 'household'],
    ] as const) {
      await kube.remove(kind, of, name);
      await until(`${kind} ${of} to be forgotten`, async () => {
        const finalizers = JSON.stringify({ metadata: { finalizers: null } });
        await kube.run(['patch', kind, of, '-n', name, '--type=merge', '-p', finalizers]);
        return (await kube.get(kind, of, name)) === undefined;
      });
    }
    await uninstall(ark, inside);
    for (const namespace of [name, arkServices, `${name}-system`, inside]) await gone('namespace', namespace);
  }

  it('is lost: namespaces, volumes and all', async () => {
    ofLater = await currentCredentials(name, inside, 'household', 'ledger');
    await lose();
  });

  it('comes back in a drill, without a backup of its own and without pods of Assistants', async () => {
    const { code, said } = await restore('--drill', '--at', new Date(moment).toISOString());
    expect([code, said]).toEqual([0, expect.stringContaining('this is a drill')]);
    const { status } = await ready('capsule', 'household', name);
    expect(status.namespace).toBe(inside);
    await until('the Assistant to have its database', async () => {
      const { conditions = [] } = (await kube.get('assistant', 'ledger', name))?.['status'] ?? {};
      const reasonOf = (type: string) =>
        conditions.find((one: { readonly type: string }) => one.type === type)?.reason;
      return reasonOf('WorkloadReady') === 'Restoring' && reasonOf('DatabaseReady') === 'Ready';
    });
    expect(await kube.list('pods', inside, 'platform.space/assistant')).toEqual([]);
    expect(await kube.get('cronjob', 'backup', arkServices)).toBeUndefined();
    const containers = (await kube.get('pod', 'postgres-0', arkServices))?.['spec'].containers;
    expect(containers.map(({ name }: { readonly name: string }) => name)).toEqual(['postgres']);
    await lose();
  });

  describe('is not restored, and nothing is left of the attempt,', () => {
    const inVault = async (script: string) => {
      const { code, stderr } = await kube.exec(provider.namespace, 's3', ['sh', '-c', script]);
      expect([code, stderr]).toEqual([0, '']);
    };
    // The oldest copy is the newest one before the moment, so a restore to an earlier moment does not use it.
    const bundle = '$(find /data/mine -path "*F/bundle/1" | sort | head -n 1)';

    it.each<[string, () => Promise<readonly string[]>, RegExp]>([
      [
        'with another identity',
        async () => {
          await writeFile(file('another'), await generateIdentity());
          return ['--identity', file('another')];
        },
        /encrypted for another recipient/,
      ],
      ['as of a time in the future', async () => ['--at', '2999-01-01T00:00:00Z'], /is in the future/],
      [
        'as of a time before its first copy',
        async () => ['--at', '2020-01-01T00:00:00Z'],
        /the oldest copy of the database was made at .*Nothing was changed/,
      ],
      [
        'as of a moment that its log does not reach',
        async () => ['--at', new Date().toISOString()],
        /log in the backup contains nothing after .*omit --at/,
      ],
      [
        'from a truncated copy of its database',
        async () => {
          await inVault(`cp ${bundle} /tmp/saved && truncate -s 1000 ${bundle}`);
          return [];
        },
        /the copy .* of the database is incomplete: .*Nothing was changed/,
      ],
    ])('%s', async (_, spoil, says) => {
      const { code, said } = await restore(...(await spoil()));
      expect([code, said]).toEqual([1, expect.stringMatching(says)]);
      expect(await kube.get('namespace', arkServices)).toBeUndefined();
      expect(await kube.get('namespace', name)).toBeUndefined();
    });

    afterAll(() => inVault(`[ ! -e /tmp/saved ] || cat /tmp/saved >${bundle}`));
  });

  it.each(stepsToKill(Math.random))('is partly restored by a command that is killed: %s', async (step) => {
    const at = ['--at', new Date(moment).toISOString()];
    await killedIn(step, Math.random, (ended) =>
      run(['--values', file('values.json'), '--key', file('key'), ...at], ended),
    );
  });

  it('is restored as it was at that moment, by the same command', async () => {
    const { code, said } = await restore('--at', new Date(moment).toISOString());
    expect([code, said]).toEqual([0, expect.stringContaining('"capsules": 1')]);
    expect(said).toMatch(/"notRestored": \[[^\]]*URLs, tokens and principals/);
    await until('no namespace of a look', async () => {
      const left = ['get', 'namespace', '-l', `platform.space/restore-room=${name}`, '-o', 'name'];
      return (await kube.run(left)).stdout === '';
    });
    await ready('capsule', 'household', name);
    await ready('assistant', 'ledger', name);
    const { balances } = await story();
    expect(balances.find(({ account }) => account === 'expenses:groceries')?.balance).toBe('42.50');
    expect(await spent()).toBe('10.00');
    expect(await object('GET')).toMatchObject({ status: 200, text: 'the-first-statement' });
  });

  it('has other credentials than before, without anybody’s help', async () => {
    const url = await secretOf('ledger-database', 'DATABASE_URL');
    expect(new URL(url).password).not.toBe(new URL(oldUrl).password);
    const role = new URL(oldUrl).username;
    expect(new URL(url).username).toBe(role);
    const now = await currentCredentials(name, inside, 'household', 'ledger');
    expect(await acceptedOf(name, now, 'household', 'ledger')).toEqual(EVERY_CREDENTIAL);
    for (const old of [retired, ofThen, ofLater])
      expect(await acceptedOf(name, old, 'household', 'ledger')).toEqual([]);
  });

  it('is backed up as before', async () => {
    await entry('After the flood');
    await backUp();
    // The restored server’s first copy is due at once, and one copy is made at a time.
    await until(
      'a copy of the restored server',
      async () => ((await made()).match(/"label":/g) ?? []).length > 1,
    );
    await until('another copy', () =>
      beside('sh', '/usr/share/space/backup.sh', 'now').then(
        () => true,
        () => false,
      ),
    );
    expect(((await made()).match(/"label":/g) ?? []).length).toBeGreaterThan(2);
    expect(await pgBackRest('repo-ls', 'archive/space/17-1')).toContain('00000002.history');
  });
});
