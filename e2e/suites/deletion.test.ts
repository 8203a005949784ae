import { describe, expect, it } from 'vitest';
import {
  assistant,
  capsule,
  databaseUrl,
  deleteCapsules,
  gone,
  installed,
  kube,
  namespaceOf,
  openDatabase,
  ready,
  superuserRows,
  system,
  unique,
  untilCondition,
  untilDeletionsEnd,
} from './support/space.ts';

const roleExists = async (role: string) =>
  (await superuserRows(`select 1 from pg_roles where rolname = '${role}'`)).length === 1;
const databaseExists = async (name: string) =>
  (await superuserRows(`select 1 from pg_database where datname = '${name}'`)).length === 1;

describe('deletion', () => {
  it('of a Capsule leaves no Assistant, namespace, database, role or Secret', async () => {
    const home = unique('drop');
    await untilDeletionsEnd();
    const before = await superuserRows("select rolname from pg_roles where rolname !~ '^pg_' order by 1");
    await kube.apply(capsule(home), assistant(home, 'inside', {}, `${home}-inside`));
    const namespace = await namespaceOf(home);
    await ready('assistant', `${home}-inside`);
    const url = await databaseUrl(namespace, 'inside');
    expect(await kube.list('secrets', system, `platform.space/capsule=${home}`)).not.toEqual([]);

    await kube.remove('capsule', home, installed.namespace);
    await gone('capsule', home, installed.namespace);

    expect(await kube.get('assistant', `${home}-inside`, installed.namespace)).toBeUndefined();
    expect(await kube.get('namespace', namespace)).toBeUndefined();
    expect(await databaseExists(url.pathname.slice(1))).toBe(false);
    expect(await superuserRows("select rolname from pg_roles where rolname !~ '^pg_' order by 1")).toEqual(
      before,
    );
    expect(await kube.list('secrets', system, `platform.space/capsule=${home}`)).toEqual([]);
  });

  it('of an Assistant drops its database and its role, and leaves its neighbour alone', async () => {
    const home = unique('drop');
    await kube.apply(
      capsule(home),
      assistant(home, 'leaves', {}, `${home}-leaves`),
      assistant(home, 'stays', {}, `${home}-stays`),
    );
    const namespace = await namespaceOf(home);
    await Promise.all([ready('assistant', `${home}-leaves`), ready('assistant', `${home}-stays`)]);
    const leaving = await databaseUrl(namespace, 'leaves');
    const staying = await databaseUrl(namespace, 'stays');
    expect(leaving.username).not.toBe(staying.username);

    await kube.remove('assistant', `${home}-leaves`, installed.namespace);
    await gone('assistant', `${home}-leaves`, installed.namespace);

    expect(await databaseExists(leaving.pathname.slice(1))).toBe(false);
    expect(await roleExists(leaving.username)).toBe(false);
    expect(await kube.get('secret', 'leaves-database', namespace)).toBeUndefined();
    expect(await kube.get('deployment', 'leaves', namespace)).toBeUndefined();
    expect((await openDatabase(staying, staying.pathname.slice(1))).code).toBe(0);
    await deleteCapsules(home);
  });

  it('of the second Assistant with an id leaves the first one’s database alone', async () => {
    const home = unique('twice');
    await kube.apply(capsule(home), assistant(home, 'same', {}, `${home}-first`));
    const namespace = await namespaceOf(home);
    await ready('assistant', `${home}-first`);
    const url = await databaseUrl(namespace, 'same');

    await kube.apply(assistant(home, 'same', {}, `${home}-second`));
    const refusal = await untilCondition(
      'assistant',
      `${home}-second`,
      'Accepted',
      'False',
      'DuplicateIdentifier',
    );
    expect(refusal.message).toContain(`${home}-first`);

    await kube.remove('assistant', `${home}-second`, installed.namespace);
    await gone('assistant', `${home}-second`, installed.namespace);
    expect((await openDatabase(url, url.pathname.slice(1))).code).toBe(0);
    await ready('assistant', `${home}-first`);
    await deleteCapsules(home);
  });
});
