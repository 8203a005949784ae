/** Brings back deleted objects whose data is still kept, with a real API server, an operator and its brokers. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import * as kinds from '../../operator/kinds.ts';
import { eachFixture } from '../../operator/testing/fixture.ts';
import type { TestSpace } from '../../operator/testing/space.ts';
import type { TestEnvironment } from '../../operator/testing/test-environment.ts';
import { findTool } from '../cluster/tools.ts';
import { createKube, type Kube } from '../space/kube.ts';
import { asApplied, type Kind, undelete } from './undelete.ts';

const { ASSISTANT, CAPSULE } = kinds;
const HOUR = 3_600_000;
let environment: TestEnvironment;
let space: TestSpace;
let home: string;
let before: string[];
let directory: string;
let kubectl: string;
let kube: Kube;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'space-undelete-'));
  kubectl = await findTool('kubectl', directory);
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

eachFixture(async (fixture) => {
  ({ environment, space, home, before } = fixture);
  const kubeconfig = join(directory, 'kubeconfig');
  writeFileSync(kubeconfig, environment.server.kubeconfig, { mode: 0o600 });
  kube = createKube(kubectl, kubeconfig);
  await space.start({ graceMs: HOUR });
  await space.settled();
});

const file = () => join(directory, `${home}.json`);
const bring = (kind: Kind, name: string, changed: Partial<Kube> = {}) =>
  undelete({
    kube: { ...kube, ...changed },
    namespace: space.names.namespace,
    kind,
    name,
    file: file(),
    note: () => undefined,
    signal: AbortSignal.timeout(240_000),
    pollMs: 40,
  });
const inGrace = (name: string) => space.becomes(ASSISTANT, name, 'Finalized', 'False RetentionGrace');
const read = async (kind: Kind, name: string) => {
  const found = await kube.get(kind, name, space.names.namespace);
  return found && asApplied(found);
};

test('an Assistant comes back as it was, with its data', async () => {
  const [url, had] = [await space.urlOf('ledger'), await read('Assistant', 'ledger')];
  await space.delete(ASSISTANT, 'ledger');
  await inGrace('ledger');
  expect(await bring('Assistant', 'ledger')).toEqual(['Assistant ledger']);
  await space.becomes(ASSISTANT, 'ledger', 'Ready', 'True Ready');
  expect(await space.urlOf('ledger')).toBe(url);
  expect(await read('Assistant', 'ledger')).toEqual(had);
  expect(existsSync(file())).toBe(false);
});

test('a Capsule comes back with its Assistants and their data', async () => {
  const url = await space.urlOf('ledger');
  const had = [await read('Capsule', home), await read('Assistant', 'ledger')];
  await space.delete(CAPSULE, home);
  await inGrace('ledger');
  expect(await bring('Capsule', home)).toEqual([`Capsule ${home}`, 'Assistant ledger']);
  await space.becomes(ASSISTANT, 'ledger', 'Ready', 'True Ready');
  expect(await space.urlOf('ledger')).toBe(url);
  expect([await read('Capsule', home), await read('Assistant', 'ledger')]).toEqual(had);
});

test('a command that is interrupted after any call is continued by the next', async () => {
  const url = await space.urlOf('ledger');
  await space.delete(CAPSULE, home);
  await inGrace('ledger');
  let rounds = 0;
  for (let most = 1; ; most += 1) {
    let calls = 0;
    const counted =
      <Args extends unknown[], T>(call: (...args: Args) => Promise<T>) =>
      async (...args: Args) => {
        // The run is interrupted after the call was carried out, and before its answer arrived.
        const answer = await call(...args);
        calls += 1;
        if (calls === most) throw new Error('cut short');
        return answer;
      };
    const { run, tryApply, list } = kube;
    const cut = { run: counted(run), tryApply: counted(tryApply), list: counted(list) };
    const ended = await bring('Capsule', home, cut).then(
      () => true,
      (error: Error) => {
        if (error.message === 'cut short') return false;
        throw error;
      },
    );
    rounds += 1;
    if (ended) break;
  }
  expect(rounds).toBeGreaterThan(3);
  await space.becomes(ASSISTANT, 'ledger', 'Ready', 'True Ready');
  expect(await space.urlOf('ledger')).toBe(url);
});

describe('says what is wrong', () => {
  test('if nothing is in deletion, or nothing exists', async () => {
    await expect(bring('Assistant', 'ledger')).rejects.toThrow('Assistant ledger is not in deletion');
    await expect(bring('Capsule', 'nothing')).rejects.toThrow('There is no Capsule nothing in');
    expect(existsSync(file())).toBe(false);
  });

  test('if the request to keep the data comes after the drop', async () => {
    await space.delete(ASSISTANT, 'ledger');
    await inGrace('ledger');
    const late: Kube['run'] = async (args, input) => {
      await space.stop();
      await space.start({ graceMs: 1 });
      await space.goes(ASSISTANT, 'ledger');
      return kube.run(args, input);
    };
    await expect(bring('Assistant', 'ledger', { run: late })).rejects.toThrow('but not all of its data');
    await space.becomes(ASSISTANT, 'ledger', 'Ready', 'True Ready');
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });

  test('if its file is of an earlier deletion, and drops nothing by waiting', async () => {
    await space.delete(ASSISTANT, 'ledger');
    await inGrace('ledger');
    const had = await environment.databases();
    const { spec, ...of } = (await kube.get('Assistant', 'ledger', space.names.namespace)) ?? { spec: {} };
    writeFileSync(file(), JSON.stringify([{ uid: 'earlier', object: { ...of, spec } }]));
    await expect(bring('Assistant', 'ledger')).rejects.toThrow('is of an earlier deletion');
    expect(await environment.databases()).toEqual(had);
    rmSync(file());
    expect(await bring('Assistant', 'ledger')).toEqual(['Assistant ledger']);
  });

  test('if an Assistant cannot be created again, and keeps its record', async () => {
    await space.delete(ASSISTANT, 'ledger');
    await inGrace('ledger');
    const refused = async () => ({ code: 1, stdout: '', stderr: 'admission says no' });
    await expect(bring('Assistant', 'ledger', { tryApply: refused })).rejects.toThrow('admission says no');
    expect(existsSync(file())).toBe(true);
    expect(await bring('Assistant', 'ledger')).toEqual(['Assistant ledger']);
  });
});
