import { setTimeout as pause } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  assistant,
  capsule,
  databaseUrl,
  gone,
  installed,
  killOperator,
  kube,
  namespaceOf,
  OWN_ENGINES,
  openDatabase,
  ready,
  superuserRows,
  system,
  unique,
  untilDeletionsEnd,
} from './support/space.ts';
import { until } from './support/until.ts';

/** When to kill, in milliseconds after the request: during the first writes, the brokers' calls, the roll-out. */
const MOMENTS = [0, 60, 150, 400, 900];

const roles = () => superuserRows("select rolname from pg_roles where rolname !~ '^pg_' order by 1");

describe('the operator killed with SIGKILL', () => {
  /** Capsules whose deletion a kill interrupted. The next kills interrupt it, too, if it has not ended by then. */
  const going: { readonly home: string; readonly namespace: string }[] = [];
  let atFirst: readonly string[];

  beforeAll(async () => {
    await untilDeletionsEnd();
    atFirst = await roles();
  });

  async function made(home: string, moment?: number): Promise<string> {
    await kube.apply(capsule(home), assistant(home, 'inside', {}, `${home}-inside`));
    if (moment !== undefined) {
      await pause(moment); // the moment is the subject; what follows waits on conditions
      await killOperator();
    }
    const namespace = await namespaceOf(home);
    await ready('assistant', `${home}-inside`);
    return namespace;
  }

  it.each(MOMENTS)(
    '%i ms into the creation of a Capsule and its Assistant completes them once',
    async (moment) => {
      const home = unique('crash');
      const before = await roles();
      const namespace = await made(home, moment);
      const url = await databaseUrl(namespace, 'inside');
      expect((await openDatabase(url, url.pathname.slice(1))).code).toBe(0);
      expect((await roles()).filter((role) => !before.includes(role))).toHaveLength(2); // the Capsule's and the Assistant's

      going.push({ home, namespace });
      await kube.remove('capsule', home, installed.namespace);
      await pause(moment);
      await killOperator();
    },
  );

  it('while an Assistant is deleted drops its database nevertheless', async () => {
    const home = unique('crash');
    const namespace = await made(home);
    const url = await databaseUrl(namespace, 'inside');
    await kube.remove('assistant', `${home}-inside`, installed.namespace);
    await killOperator();
    await gone('assistant', `${home}-inside`, installed.namespace);
    expect(await superuserRows(`select 1 from pg_roles where rolname = '${url.username}'`)).toEqual([]);
    going.push({ home, namespace });
    await kube.remove('capsule', home, installed.namespace);
  });

  it.each(MOMENTS)('%i ms into their deletion, and again later, leaves nothing of them', async (moment) => {
    const found = going[MOMENTS.indexOf(moment)];
    if (found === undefined) throw new Error('nothing was made to be deleted');
    await gone('capsule', found.home, installed.namespace);
    expect(await kube.get('namespace', found.namespace)).toBeUndefined();
    const ofHome = `platform.space/capsule=${found.home}`;
    expect(await kube.list('secrets', system, ofHome)).toEqual([]);
  });

  it('and at the end there are only the roles of the beginning', async () => {
    for (const { home } of going) await gone('capsule', home, installed.namespace);
    expect(await roles()).toEqual(atFirst);
  });
});

describe('the embedded PostgreSQL', () => {
  it('goes on with all its sessions when a process that somebody left behind ends with an error', async (context) => {
    // The first process of its container is what this is about; that of a server of one's own is its owner's.
    if (OWN_ENGINES !== undefined) return context.skip(OWN_ENGINES);
    const { namespace, pod } = installed.engines.postgres;
    const inside = (script: string) => kube.exec(namespace, pod, ['sh', '-c', script]);
    // The server makes it anew when it has ended all sessions.
    const begun = () =>
      superuserRows("select backend_start from pg_stat_activity where backend_type = 'checkpointer'");
    const before = await begun();
    expect(before).toHaveLength(1);
    const { stdout } = await inside('(setsid sh -c "sleep 1; exit 3" >/dev/null 2>&1 & echo $!)');
    await until(
      'the end of what was left',
      async () => (await inside(`test ! -e /proc/${stdout.trim()}`)).code === 0,
    );
    expect(await begun()).toEqual(before);
  });
});
