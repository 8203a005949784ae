/** What an engine has of a cluster before `up` and after `down`, if something went wrong in between. */
import { mkdtemp, rm, watch, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { locked } from '../lock.ts';
import { onPath } from '../tools.ts';
import { networkOf, nodeOf } from './node.ts';
import { type FakeMachine, fakeMachine, type Pause, readEngine } from './testing/fake.ts';

/** A cluster whose name begins with the same letters, and kind's own network: neither may be changed. */
async function addNeighbour({ engine, name }: FakeMachine): Promise<readonly string[]> {
  const container = `${name}-2-control-plane`;
  await writeFile(join(engine, 'containers', container), `kind\nio.x-k8s.kind.cluster=${name}-2\ntrue\n`);
  await writeFile(join(engine, 'networks', 'kind'), '');
  return [`containers/${container}`, 'networks/kind'];
}

const whole = ({ name }: FakeMachine) => [`containers/${nodeOf(name)}`, `networks/${networkOf(name)}`];

const PLACES: readonly (readonly [Pause, string])[] = [
  ['version', 'while the node image was asked for its version'],
  ['network', 'before kind had a node'],
  ['node', 'while kind waited for its node'],
  ['copy', 'while gVisor was brought into the node'],
];

test.each(PLACES)('`down` leaves nothing of an `up` that was killed (%s: %s)', async (pause) => {
  await using machine = await fakeMachine();
  const others = await addNeighbour(machine);
  await machine.killedUp(pause);
  expect(await machine.remains()).not.toEqual(others);
  expect(await machine.cluster(['down'])).toMatchObject({ code: 0 });
  expect(await machine.remains()).toEqual(others);
});

test.each(PLACES)('the next `up` creates the cluster again after one was killed (%s: %s)', async (pause) => {
  await using machine = await fakeMachine();
  const others = await addNeighbour(machine);
  await machine.killedUp(pause);
  const { code, said } = await machine.cluster(['up']);
  expect([code, said]).toEqual([0, expect.stringContaining('✓ kind cluster')]);
  if (pause === 'node' || pause === 'copy') expect(said).toContain('an earlier up was interrupted');
  expect(await machine.remains()).toEqual([...others, ...whole(machine)].toSorted());
  expect((await machine.cluster(['up'])).said).toContain('runs already');
});

test('a cluster of that name that does not belong to a Space is refused by `up` and `down`, and not changed', async () => {
  await using machine = await fakeMachine();
  const { engine, name, cluster } = machine;
  const node = `containers/${nodeOf(name)}`;
  await writeFile(join(engine, node), `kind\nio.x-k8s.kind.cluster=${name}\ntrue\n`);
  for (const act of [['up'], ['down'], ['down', '--keep']]) {
    const { code, said } = await cluster(act);
    expect([code, said]).toEqual([1, expect.stringMatching(/kind cluster test-\w+ already.*left as it is/)]);
    expect(said).toContain(`kind delete cluster --name ${name}`);
    expect(await readEngine(machine, node)).toContain('true');
  }
  expect(await machine.remains()).toEqual([node]);
});

test('a foreign cluster with the name of a complete one that was removed by hand is not mistaken for it', async () => {
  await using machine = await fakeMachine();
  const { engine, name, cluster } = machine;
  expect(await cluster(['up'])).toMatchObject({ code: 0 });
  const node = `containers/${nodeOf(name)}`;
  await writeFile(join(engine, node), `kind\nio.x-k8s.kind.cluster=${name}\ntrue\n`);
  expect((await cluster(['up'])).said).toContain('left as it is');
  expect((await cluster(['down'])).said).toContain('left as it is');
  expect(await machine.remains()).toContain(node);
});

test('a Space’s cluster of another checkout is not changed by `up`, and is removed by `down`', async () => {
  await using machine = await fakeMachine();
  const { engine, name, cluster } = machine;
  const network = networkOf(name);
  await writeFile(join(engine, 'networks', network), '');
  await writeFile(
    join(engine, 'containers', nodeOf(name)),
    `${network}\nio.x-k8s.kind.cluster=${name}\ntrue\n`,
  );
  const { code, said } = await cluster(['up']);
  expect([code, said]).toEqual([1, expect.stringContaining('which this checkout did not make')]);
  expect(await machine.remains()).toEqual(whole(machine));
  expect(await cluster(['down'])).toMatchObject({ code: 0 });
  expect(await machine.remains()).toEqual([]);
});

test('`down` waits for an `up` that is still running, and does not remove what it creates', async () => {
  await using machine = await fakeMachine();
  const { name, lock, cluster } = machine;
  expect(await cluster(['up'])).toMatchObject({ code: 0 });
  const [taken, atWork] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const work = () => {
    taken.resolve();
    return atWork.promise;
  };
  const held = locked(lock, () => undefined, work);
  await taken.promise;
  const down = cluster(['down']);
  // It retries with a file of another name each time, so the second file shows that it has found out that it must
  // wait.
  const tries = new Set<string>();
  const ended = new AbortController();
  void down.finally(() => ended.abort(new Error('down did not wait')));
  for await (const { filename } of watch(dirname(lock), { signal: ended.signal })) {
    if (filename?.startsWith(`${name}.lock.`)) tries.add(filename);
    if (tries.size === 2) break;
  }
  expect(await machine.remains()).toEqual(whole(machine));
  atWork.resolve();
  await held;
  expect(await down).toMatchObject({
    code: 0,
    said: expect.stringContaining('another command is at work on it'),
  });
  expect(await machine.remains()).toEqual([]);
});

test('the network has no IPv6, for which the engine would change settings of the whole machine', async () => {
  await using machine = await fakeMachine();
  expect(await machine.cluster(['up'])).toMatchObject({ code: 0 });
  expect(await readEngine(machine, `networks/${networkOf(machine.name)}`)).not.toContain('ipv6');
});

test('`down` needs neither kind nor Go', async () => {
  await using machine = await fakeMachine();
  expect(await machine.cluster(['up'])).toMatchObject({ code: 0 });
  const { code } = await machine.cluster(['down'], { XDG_CACHE_HOME: join(machine.engine, 'empty') });
  expect(code).toBe(0);
  expect(await machine.remains()).toEqual([]);
});

test('if kind is not built and there is no Go, `up` says so and creates nothing in the engine', async () => {
  await using machine = await fakeMachine(['gvisor', 'calico', 'kubernetes']);
  const { code, said } = await machine.cluster(['up']);
  expect([code, said]).toEqual([
    1,
    expect.stringContaining('Go is missing; the cluster is built from Go modules.'),
  ]);
  expect(said).toMatch(/Install Go \d+\.\d+\.\d+ or later/);
  expect(await machine.remains()).toEqual([]);
});

test('if a module of kind cannot be downloaded, `up` says which one, why and what to do', async () => {
  await using machine = await fakeMachine(['gvisor', 'calico', 'kubernetes']);
  const modules = await mkdtemp(join(tmpdir(), 'modules-'));
  const { code, said } = await machine.cluster(['up'], {
    PATH: `${dirname(process.execPath)}:${dirname(onPath('go') ?? '')}:${join(machine.engine, '..', 'path')}`,
    GOMODCACHE: modules,
    GOPROXY: 'off',
  });
  await rm(modules, { recursive: true });
  expect(code).toBe(1);
  expect(said).toContain('kind cannot be built: Go cannot get a module of it.');
  expect(said).toContain('module lookup disabled by GOPROXY=off');
  expect(said).toMatch(/GOPROXY \(now off\).*run the command again/);
  expect(await machine.remains()).toEqual([]);
});
