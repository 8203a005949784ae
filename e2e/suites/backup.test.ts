/** A Space that is lost, and made again from its backup, at a moment before somebody erred. */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { applyExamples, tellStory } from '../space/example.ts';
import { granted, type Provider, startProvider } from './support/own-bucket.ts';
import { helm, install, uninstall, valuesOfOurs } from './support/releases.ts';
import { gone, installed, kube, ready, services, unique } from './support/space.ts';
import { until } from './support/until.ts';

const name = unique('ark');
const ark = { space: name, namespace: name };
const arkServices = `${name}-services`;
const RESTORE = resolve(import.meta.dirname, '../restore/main.ts');

describe('a Space with a backup', () => {
  let directory: string;
  let provider: Provider;
  let inside: string;
  let moment: string;
  let oldUrl: string;

  const file = (of: string) => join(directory, of);
  const entry = (description: string) =>
    kube.proxy(inside, 'ledger:8080', '/entries', {
      description,
      idempotency_key: description.replaceAll(' ', '-'),
      lines: [
        { account: 'expenses:ark', currency: 'EUR', amount: '10.00' },
        { account: 'assets:bank', currency: 'EUR', amount: '-10.00' },
      ],
    });
  /** What was spent on it, as the ledger has it. */
  const spent = async () => {
    const { balances } = (await kube.proxy(inside, 'ledger:8080', '/balances')) as {
      balances: { account: string; balance: string }[];
    };
    return balances.find(({ account }) => account === 'expenses:ark')?.balance;
  };
  /** In the container beside the server, as its superuser. */
  const beside = async (...program: string[]) => {
    const exec = ['exec', '-n', arkServices, 'postgres-0', '-c', 'backup', '--', ...program];
    const { code, stdout, stderr } = await kube.run(exec);
    if (code !== 0) throw new Error(stderr || stdout);
    return stdout.trim();
  };
  const sql = (statement: string) =>
    beside('psql', '-XAtqU', 'postgres', '-h', '/run/postgresql', '-c', statement, 'postgres');
  const object = (method: string, ...body: string[]) =>
    granted(inside, 'ledger', method, '/v1/objects/data/statement', ...body);
  const secretOf = async (of: string, key: string) => {
    const secret = await kube.get('secret', of, inside);
    return Buffer.from(secret?.['data'][key] ?? '', 'base64').toString();
  };
  /** As somebody types it; resolves with how it ended. */
  const restore = (...more: string[]) =>
    new Promise<{ code: number; said: string }>((done) => {
      const args = ['--values', file('values.json'), '--identity', file('identity'), '--key', file('key')];
      const env = { ...process.env, SPACE_CLUSTER: installed.cluster };
      execFile(process.execPath, [RESTORE, ...args, '--space', name, ...more], { env }, (error, out, err) =>
        done({ code: error === null ? 0 : 1, said: `${out}${err}` }),
      );
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
    const image = (await kube.get('statefulset', 's3', services))?.['spec'].template.spec.containers[0].image;
    provider = await startProvider(unique('vault'), image);
    const identity = await generateIdentity();
    const values = {
      ...(await valuesOfOurs()),
      existingSecrets: { backupS3: 'backup-s3' },
      backup: {
        enabled: true,
        recipient: await identityToRecipient(identity),
        postgres: { archiveSeconds: 5 },
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

  it('copies rows, objects, keys and Capsules, and nobody who has the bucket can read them', async () => {
    await tellStory(kube, inside);
    expect(await object('PUT', 'the-first-statement')).toMatchObject({ status: 200 });
    await until('a copy of the server', async () => /^\S+F$/m.test(await copies()));
    await backUp();
    for (const text of ['Groceries, paid by card', 'the-first-statement', 'household', 'statement'])
      expect(await provider.holds(text)).toBe(0);
  });

  const copies = () =>
    beside(
      'pgbackrest',
      '--config=/run/postgresql/pgbackrest.conf',
      '--stanza=space',
      'repo-ls',
      'backup/space',
    );

  it('archives what is written after that, too', async () => {
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

  it('is not restored over while it lives', async () => {
    const { code, said } = await restore();
    expect([code, said]).toEqual([1, expect.stringContaining(`the release ${name} is installed`)]);
  });

  it('is lost: namespaces, volumes and all', async () => {
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
  });

  it('is not made again by somebody with another identity, and nothing is left of the attempt', async () => {
    await writeFile(file('another'), await generateIdentity());
    const { code, said } = await restore('--identity', file('another'));
    expect([code, said]).toEqual([1, expect.stringContaining('sealed for another recipient')]);
    expect(await kube.get('namespace', arkServices)).toBeUndefined();
  });

  it('is made again as it was at that moment', async () => {
    const { code, said } = await restore('--at', new Date(moment).toISOString());
    expect([code, said]).toEqual([0, expect.stringContaining('"capsules": 1')]);
    await ready('capsule', 'household', name);
    await ready('assistant', 'ledger', name);
    const { balances } = await tellStory(kube, inside);
    expect(balances.find(({ account }) => account === 'expenses:groceries')?.balance).toBe('42.50');
    expect(await spent()).toBe('10.00');
    expect(await object('GET')).toMatchObject({ status: 200, text: 'the-first-statement' });
  });

  it('has other credentials than before, by itself', async () => {
    const url = await secretOf('ledger-database', 'DATABASE_URL');
    expect(new URL(url).password).not.toBe(new URL(oldUrl).password);
    const role = new URL(oldUrl).username;
    expect(new URL(url).username).toBe(role);
  });

  it('is backed up as before', async () => {
    await entry('After the flood');
    await backUp();
    await beside('sh', '/usr/share/space/backup.sh', 'now');
    expect((await copies()).split('\n').length).toBeGreaterThan(1);
  });
});
