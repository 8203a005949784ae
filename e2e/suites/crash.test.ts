import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import {
  assistant,
  capsule,
  databaseUrl,
  gone,
  installed,
  killOperator,
  kube,
  namespaceOf,
  openDatabase,
  ready,
  superuserRows,
  unique,
} from './support/space.ts';

/** When to kill, in milliseconds after the request: the first writes, the brokers' calls, the roll-out. */
const MOMENTS = [0, 60, 150, 400, 900];

const roles = () => superuserRows("select rolname from pg_roles where rolname !~ '^pg_' order by 1");

describe('the operator killed with SIGKILL', () => {
  it.each(MOMENTS)(
    '%i ms into the making of a Capsule and its Assistant finishes them once',
    async (moment) => {
      const home = unique('crash');
      const before = await roles();
      await kube.apply(capsule(home), assistant(home, 'inside', {}, `${home}-inside`));
      await pause(moment); // the moment is the subject; what follows waits on conditions
      await killOperator();

      const namespace = await namespaceOf(home);
      await ready('assistant', `${home}-inside`);
      const url = await databaseUrl(namespace, 'inside');
      expect((await openDatabase(url, url.pathname.slice(1))).code).toBe(0);
      expect((await roles()).filter((role) => !before.includes(role))).toHaveLength(2); // the Capsule's and the Assistant's

      await kube.remove('capsule', home, installed.namespace);
      await pause(moment);
      await killOperator();
      await gone('capsule', home, installed.namespace);
      expect(await kube.get('namespace', namespace)).toBeUndefined();
      expect(await roles()).toEqual(before);
      expect(await kube.list('secrets', installed.namespace, `platform.space/capsule=${home}`)).toEqual([]);
    },
  );

  it('while an Assistant is deleted drops its database all the same', async () => {
    const home = unique('crash');
    await kube.apply(capsule(home), assistant(home, 'inside', {}, `${home}-inside`));
    const namespace = await namespaceOf(home);
    await ready('assistant', `${home}-inside`);
    const url = await databaseUrl(namespace, 'inside');
    await kube.remove('assistant', `${home}-inside`, installed.namespace);
    await killOperator();
    await gone('assistant', `${home}-inside`, installed.namespace);
    expect(await superuserRows(`select 1 from pg_roles where rolname = '${url.username}'`)).toEqual([]);
    await kube.remove('capsule', home, installed.namespace);
    await gone('capsule', home, installed.namespace);
  });
});
