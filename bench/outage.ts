/**
 * Measures an operator while the API server is down for a minute, or does not answer for five: how many requests it sends, how
 * often its process ends, and how long after the end of the outage it has acted on everything that users did. The operator runs
 * as in its image and is restarted as a kubelet would; the API server is real.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { KubeConfig } from '@kubernetes/client-node';
import { type FaultProxy, openFaultProxy } from '../operator/testing/fault-proxy.ts';
import { operatorProgram } from '../operator/testing/program.ts';
import { openTestEnvironment, type TestEnvironment } from '../operator/testing/test-environment.ts';
import { eventually } from '../testing/eventually.ts';
import type { Report, Row } from '../testing/report.ts';
import { keepRunning, type RestartingOperator } from './outage/keeper.ts';
import { createUsers, type Users } from './outage/users.ts';

const SECONDS = { quick: { short: 12, long: 20 }, full: { short: 60, long: 300 } };
/** A restarted leader first waits until its former Lease expires. */
const LEADS_WITHIN_MS = 10 * 60_000;

interface Outage {
  readonly name: string;
  readonly what: string;
  readonly seconds: number;
  begin(): Promise<void> | void;
  end(): Promise<void> | void;
  /** Whether users can still reach the API server, so that only the operator is cut off. */
  readonly usersAct: boolean;
}

interface Options {
  readonly quick: boolean;
  readonly only?: readonly string[];
}

export async function run({ quick, only }: Options): Promise<Report> {
  const { short, long } = quick ? SECONDS.quick : SECONDS.full;
  const environment = await openTestEnvironment();
  const proxy = await openFaultProxy(environment.server);
  try {
    const pass = () => proxy.fault(() => undefined);
    const outages: readonly Outage[] = [
      {
        name: 'killed',
        what: 'the API server is killed',
        seconds: short,
        usersAct: false,
        begin: () => environment.server.kill(),
        end: () => environment.server.restart(),
      },
      {
        name: 'cut',
        what: 'all connections to the API server are cut',
        seconds: short,
        usersAct: true,
        begin() {
          proxy.fault(() => ({ kind: 'drop' }));
          proxy.cut();
        },
        end: pass,
      },
      {
        name: 'stalled',
        what: 'the API server answers nothing any more',
        seconds: long,
        usersAct: true,
        begin() {
          proxy.fault(() => ({ kind: 'stall' }));
          proxy.mute();
        },
        end: pass,
      },
    ];
    const wanted = outages.filter(({ name }) => only?.includes(name) !== false);
    if (wanted.length === 0)
      throw new Error(
        `--only names no outage; the outages are ${outages.map(({ name }) => name).join(', ')}`,
      );
    return await measure(environment, proxy, wanted);
  } finally {
    await proxy.close();
    await environment.close();
  }
}

async function measure(
  environment: TestEnvironment,
  proxy: FaultProxy,
  outages: readonly Outage[],
): Promise<Report> {
  const space = await environment.space();
  const program = await operatorProgram({
    names: space.names,
    kubeconfig: byWayOf(proxy.port, environment.server.kubeconfig),
    dbBrokerUrl: environment.database.broker.url,
    dbProvisionerToken: environment.database.mounts.provisioner,
  });
  const keeper = keepRunning(program);
  try {
    const users = await createUsers(space);
    await users.settled();
    const rows: Row[] = [];
    for (const outage of outages) rows.push(await runOutage(outage, proxy, keeper, users));
    const worst = (of: string) => Math.max(...rows.map((row) => Number(row[of])));
    return {
      title: 'An operator during and after an outage of the API server',
      rows,
      figures: {
        asked_per_second: worst('requests/s'),
        asked_per_second_late: worst('requests/s, 2nd half'),
        asked_peak: worst('most in 1 s'),
        back_ms: worst('all done after ms'),
        process_starts: keeper.starts,
      },
      notes: [
        'Requests are all requests and connections of the operator during the outage. “Leads after” and “all done after” are counted from the end of the outage: until an operator leads, and until it has acted on all that users did. Where users could reach the API server, they acted during the outage.',
      ],
    };
  } finally {
    await keeper.stop();
    await program.remove();
  }
}

async function runOutage(
  { what, seconds, begin, end, usersAct }: Outage,
  proxy: FaultProxy,
  keeper: RestartingOperator,
  users: Users,
): Promise<Row> {
  console.error(`${what}, for ${seconds} s`);
  const starts = keeper.starts;
  keeper.forgive();
  const asked = proxy.asked.length;
  await begin();
  if (usersAct) await users.act();
  const each: number[] = [];
  for (let second = 0, before = asked; second < seconds; second += 1) {
    await pause(1_000);
    each.push(proxy.asked.length - before);
    before = proxy.asked.length;
  }
  const late = each.slice(seconds / 2);
  const perSecond = (of: readonly number[]) => Math.round((sum(of) / of.length) * 10) / 10;
  await end();
  const ended = performance.now();
  if (!usersAct) await users.act();
  await eventually(() => keeper.leads(), { what: 'an operator leads', within: LEADS_WITHIN_MS });
  const leads = performance.now() - ended;
  await users.settled();
  return {
    outage: what,
    seconds,
    'requests/s': perSecond(each),
    'requests/s, 2nd half': perSecond(late),
    'most in 1 s': Math.max(...each),
    restarts: keeper.starts - starts,
    'leads after ms': Math.round(leads),
    'all done after ms': Math.round(performance.now() - ended),
  };
}

const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0);

/** The same user of the same server, but through the proxy's port. */
function byWayOf(port: number, kubeconfig: string): string {
  const whole = new KubeConfig();
  whole.loadFromString(kubeconfig);
  const token = whole.getCurrentUser()?.token ?? '';
  const other = new KubeConfig();
  const cluster = { name: 'test', server: `http://127.0.0.1:${port}`, skipTLSVerify: true };
  other.loadFromClusterAndUser(cluster, { name: 'admin', token });
  return other.exportConfig();
}
