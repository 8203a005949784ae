import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openCluster } from '../cluster/index.ts';
import { finish } from '../space/kube.ts';
import { REACH, reached } from './support/reach.ts';
import {
  assistant,
  capsule,
  deleteCapsules,
  enterNodes,
  installed,
  kube,
  namespaceOf,
  podsOf,
  programPod,
  ready,
  runningPod,
  services,
  system,
  unique,
} from './support/space.ts';
import { until } from './support/until.ts';

/** Tries every target at once, and returns for each how the connection ended; a dropped packet is a `timeout`. */
const PROBE = `
  const { connect } = require('node:net');
  const tried = process.argv.slice(1).map((target) => new Promise((resolve) => {
    const [host, port] = target.split(' ');
    const socket = connect({ host, port: Number(port) });
    const end = (how) => { socket.destroy(); resolve([target, how]); };
    socket.setTimeout(3000, () => end('timeout'));
    socket.on('connect', () => end('connected'));
    socket.on('error', (error) => end(error.code));
  }));
  Promise.all(tried).then((ended) => console.log(JSON.stringify(Object.fromEntries(ended))));
`;

/**
 * Connects again and again from its first instruction on, until the first target has been reachable for a second. It
 * prints for each target how often it was tried, and after how many milliseconds it was reached. It is in perl, which
 * starts at once.
 */
const FROM_THE_FIRST = String.raw`
use strict; use Socket; use Fcntl; use POSIX ();
$| = 1;
$SIG{TERM} = sub { exit };
sub now { (POSIX::times())[0] / 100 }
my $start = now;
my %tried; my %met; my @open;
sub enough { !grep { !exists $met{$_} && ($tried{$_} // 0) <= 20 } @ARGV }
while (now() - $start < 60 && !(exists $met{$ARGV[0]} && now() - $start > 1 + $met{$ARGV[0]} && enough)) {
  for my $target (grep { !exists $met{$_} } @ARGV) {
    my ($host, $port) = split / /, $target;
    socket(my $s, PF_INET, SOCK_STREAM, 6) or next;
    fcntl($s, F_SETFL, O_NONBLOCK);
    connect($s, pack_sockaddr_in($port, inet_aton $host));
    $tried{$target}++;
    push @open, [$s, $target, now];
  }
  my $ready = '';
  vec($ready, fileno $_->[0], 1) = 1 for @open;
  select(undef, $ready, undef, 0.005) >= 0 or $ready = '';
  @open = grep {
    my ($s, $target, $at) = @$_;
    my $ended = vec($ready, fileno $s, 1);
    $met{$target} //= now() - $start if $ended && getpeername $s;
    !$ended && now() - $at < 0.25;
  } @open;
}
print "tried\t$_\t$tried{$_}\t", exists $met{$_} ? int(1000 * $met{$_}) : 'never', "\n" for @ARGV;
print "done\n";
sleep 600 if $ENV{PORT};
`;

interface Meeting {
  readonly tried: number;
  readonly met: 'never' | number;
}

function meetings(log: string): Record<string, Meeting> {
  const lines = log.split('\n').filter((line) => line.startsWith('tried\t'));
  return Object.fromEntries(
    lines.map((line) => {
      const [, target = '', tried, met] = line.split('\t');
      return [target, { tried: Number(tried), met: met === 'never' ? met : Number(met) }];
    }),
  );
}

async function probe(
  namespace: string,
  pod: string,
  targets: readonly string[],
): Promise<Record<string, string>> {
  const { stdout, stderr } = await kube.exec(namespace, pod, ['node', '-e', PROBE, ...targets]);
  if (stdout === '') throw new Error(stderr);
  return JSON.parse(stdout);
}

/**
 * The same again until each open target was reached, which may take more than one try on a busy machine; at once if one
 * of the others was.
 */
function probeUntilOpen(
  namespace: string,
  pod: string,
  open: readonly string[],
  others: readonly string[] = [],
): Promise<Record<string, string>> {
  return until(`${open.join()} to be reached`, async () => {
    const ends = await probe(namespace, pod, [...open, ...others]);
    const isReached = (target: string) => ends[target] === 'connected';
    return open.every(isReached) || others.some(isReached) ? ends : undefined;
  });
}

/**
 * Waits until each target was reached by a node, where tests may enter nodes. A node has no walls, and no policy keeps it
 * from its own pods. A Service with pods on two nodes is tried again while it leads each node to a pod of the other.
 */
async function reachedByNodes(targets: readonly string[]): Promise<void> {
  const nodes = await enterNodes();
  if (nodes.length === 0) return;
  const met = new Set<string>();
  await until('each target to be reached by a node', async () => {
    const left = targets.filter((target) => !met.has(target));
    const found = await Promise.all(
      nodes.map(async (command) => {
        const [program, ...args] = command([...REACH, ...left.map((target) => `tcp ${target}`)]);
        return reached((await finish(program, args)).stdout);
      }),
    );
    const silent = left.filter((target) => found.every((ended) => ended[`tcp ${target}`] !== 'connected'));
    for (const target of left) if (!silent.includes(target)) met.add(target);
    if (silent.length > 0) throw new Error(silent.join());
    return true;
  });
}

const assistantAddress = async (namespace: string, id: string): Promise<string> =>
  (await runningPod(namespace, id)).status.podIP;
const programAddress = async (namespace: string, component: string): Promise<string> =>
  (await programPod(namespace, component)).status.podIP;
const serviceAddress = async (namespace: string, name: string) =>
  (await kube.get('service', name, namespace))?.spec.clusterIP as string;

describe('an Assistant behind its Capsule’s walls', () => {
  const { postgres, s3 } = installed.engines;
  const one = unique('wall');
  const other = unique('wall');
  let namespace: string;
  let otherNamespace: string;
  let pod: string;
  /** A pod without network policies, which accepts connections from everybody. */
  const free = unique('free');

  beforeAll(async () => {
    await kube.apply(
      {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: free, namespace: 'default' },
        spec: {
          containers: [
            {
              name: 'free',
              image: installed.image,
              command: ['node', '-e', "require('node:net').createServer((s) => s.end()).listen(8080)"],
            },
          ],
        },
      },
      capsule(one),
      capsule(other),
      assistant(one, 'inside', {}, one),
      assistant(other, 'inside', {}, other),
    );
    [namespace, otherNamespace] = await Promise.all([namespaceOf(one), namespaceOf(other)]);
    await Promise.all([ready('assistant', one), ready('assistant', other)]);
    pod = (await runningPod(namespace, 'inside')).metadata.name;
  });

  afterAll(async () => {
    await deleteCapsules(one, other);
    await kube.remove('pod', free, 'default');
  });

  it('reaches nothing that is forbidden from its first instruction on, whenever its policies take effect', async () => {
    const address = await until('the free pod to have an address', async () => {
      const status = (await kube.get('pod', free, 'default'))?.status;
      return status?.phase === 'Running' ? (status.podIP as string) : undefined;
    });
    const allowed = `${await serviceAddress(postgres.namespace, postgres.service)} 5432`;
    const forbidden = [
      `${await serviceAddress('default', 'kubernetes')} 443`,
      `${await serviceAddress('kube-system', 'kube-dns')} 53`,
      `${address} 8080`,
      `${await assistantAddress(otherNamespace, 'inside')} 8080`,
    ];
    const command = ['perl', '-e', FROM_THE_FIRST, allowed, ...forbidden];
    await kube.apply(assistant(one, 'first', { command }, `${one}-first`));
    // As a control, the same program reaches all of them meanwhile from a pod without policies. Listeners in a
    // Capsule have policies of their own.
    const open = forbidden.slice(0, -1);
    const control = await kube.exec('default', free, ['perl', '-e', FROM_THE_FIRST, ...open]);
    expect(control.stderr).toBe('');
    expect(meetings(control.stdout)).toEqual(
      Object.fromEntries(
        open.map((target) => [target, { tried: expect.any(Number), met: expect.any(Number) }]),
      ),
    );
    const log = await until('the first Assistant to have tried', async () => {
      const [first] = await podsOf(namespace, 'first');
      const { stdout } = await kube.run([
        'logs',
        '-n',
        namespace,
        `${first?.metadata.name}`,
        '-c',
        'assistant',
      ]);
      return stdout.includes('done') ? stdout : undefined;
    });
    const { [allowed]: wished, ...others } = meetings(log);
    console.info(`from its first instruction on: PostgreSQL met after ${wished?.met} ms`, others);
    expect(wished?.met).toEqual(expect.any(Number));
    expect(others).toEqual(
      Object.fromEntries(forbidden.map((target) => [target, { tried: expect.any(Number), met: 'never' }])),
    );
    for (const { tried } of Object.values(others)) expect(tried).toBeGreaterThan(20);
    await kube.remove('assistant', `${one}-first`, installed.namespace);
  });

  it('reaches database and files, and neither control of a broker, API server, DNS, storage, operator nor another Capsule', async () => {
    const open = [
      `${await serviceAddress(postgres.namespace, postgres.service)} 5432`,
      `${await serviceAddress(services, 'objectstore')} 8081`,
    ];
    const closed = [
      `${await serviceAddress(services, 'db-broker')} 8080`,
      `${await programAddress(services, 'db-broker')} 8080`,
      `${await programAddress(services, 'db-broker')} 9090`,
      `${await serviceAddress(services, 'objectstore-broker')} 8080`,
      `${await programAddress(services, 'objectstore-broker')} 8080`,
      `${await programAddress(services, 'objectstore-broker')} 9090`,
      `${await serviceAddress(s3.namespace, s3.service)} 7070`,
      `${(await kube.get('pod', s3.pod, s3.namespace))?.status.podIP} 7070`,
      `${await serviceAddress('default', 'kubernetes')} 443`,
      `${await serviceAddress('kube-system', 'kube-dns')} 53`,
      `${await programAddress(system, 'operator')} 8081`,
      `${await programAddress(system, 'operator')} 9090`,
      `${await serviceAddress(otherNamespace, 'inside')} 8080`,
      `${await assistantAddress(otherNamespace, 'inside')} 8080`,
    ];
    expect(closed.join()).not.toContain('undefined');
    // Each of them is there, and would answer.
    await reachedByNodes(closed);
    expect(await probeUntilOpen(namespace, pod, open, closed)).toEqual({
      ...Object.fromEntries(open.map((target) => [target, 'connected'])),
      ...Object.fromEntries(closed.map((target) => [target, 'timeout'])),
    });
  });

  it('resolves the names of its database and its files and no other', async () => {
    const look = await kube.exec(namespace, pod, [
      'node',
      '-e',
      `const { lookup } = require('node:dns').promises;
       const name = (host) => lookup(host).then(() => 'known', (error) => error.code);
       const postgres = new URL(process.env.DATABASE_URL).hostname;
       Promise.all([postgres, 'objectstore', 'kubernetes.default.svc', 'example.com'].map(name)).then((ends) => console.log(ends.join()))`,
    ]);
    expect(look.stdout.trim()).toMatch(/^known,known,E\w+,E\w+$/);
  });

  it('cannot reach a host beyond the cluster that a pod without walls reaches', async (context) => {
    const node = (await openCluster(installed.cluster))?.node;
    if (node === undefined)
      return context.skip('only a cluster of our own has a host beyond it that tests may make');
    await using outside = await node.outside({ ports: [8080] });
    const target = `${outside.addresses[0]} 8080`;

    expect(await probeUntilOpen('default', free, [target])).toEqual({ [target]: 'connected' });
    expect(await probe(namespace, pod, [target])).toEqual({ [target]: 'timeout' });

    // The host reports connections with a delay: once a later one is reported, every earlier one has been.
    const before = (await outside.connections()).length;
    expect(await probeUntilOpen('default', free, [target])).toEqual({ [target]: 'connected' });
    await until(
      'the later connection to be known',
      async () => (await outside.connections()).length > before,
    );
    const walled = (await runningPod(namespace, 'inside')).status.podIP;
    expect((await outside.connections()).map(({ from }) => from)).not.toContain(walled);
  });

  it('is reached from the Space’s namespace by pods that are marked as its clients, and by no other pod', async () => {
    const image = installed.image;
    const targets = [`${await serviceAddress(namespace, 'inside')} 8080`];
    const client = (name: string, labels: Record<string, string>) => ({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, namespace: installed.namespace, labels },
      spec: {
        automountServiceAccountToken: false,
        securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } },
        containers: [
          {
            name: 'probe',
            image,
            command: ['sleep', '600'],
            securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
          },
        ],
      },
    });
    const marked = unique('marked');
    const stranger = unique('stranger');
    await kube.apply(client(marked, { 'platform.space/client': 'true' }), client(stranger, {}));
    for (const name of [marked, stranger]) {
      await until(`${name} to run`, async () => {
        const pod = await kube.get('pod', name, installed.namespace);
        return pod?.status.containerStatuses?.[0]?.state.running !== undefined;
      });
    }
    expect(Object.values(await probeUntilOpen(installed.namespace, marked, targets))).toEqual(['connected']);
    expect(Object.values(await probe(installed.namespace, stranger, targets))).toEqual(['timeout']);
    for (const name of [marked, stranger]) await kube.remove('pod', name, installed.namespace);
  });
});
