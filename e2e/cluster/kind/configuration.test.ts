/** How kind and containerd interpret the written configuration, by kind's own code and the real containerd. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { run } from '../run.ts';
import { built } from '../tools.ts';
import { KIND_RUNSC, kindConfiguration, NODE } from './configuration.ts';

interface Read {
  readonly containerd: string;
  readonly kubeadm: string;
  readonly disableDefaultCNI: boolean;
}

let directory: string;
let kind: string;
let containerd: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'kind-'));
  const log = join(directory, 'build.log');
  kind = await built('kind', log);
  containerd = join(await built('containerd', log), 'containerd');
});
afterAll(() => rm(directory, { recursive: true, force: true }));

/** What kind would write into a node whose containerd has the configuration `own`. */
async function read(own: string): Promise<Read> {
  const file = join(directory, 'kind.yaml');
  await writeFile(
    file,
    kindConfiguration({ name: 'space', image: 'kindest/node:v1.36.4', audit: '/audit.json' }),
  );
  return JSON.parse(await run([join(kind, 'reader'), file, own])) as Read;
}

/** The configuration as containerd reads it: its `[section]`s with their contents. */
async function understood(configuration: string): Promise<ReadonlyMap<string, string>> {
  const file = join(directory, 'containerd.toml');
  await writeFile(file, configuration);
  const dump = await run([containerd, '--config', file, 'config', 'dump']);
  const heads = [...dump.matchAll(/^\s*\[([^\]=]+)\]$/gm)];
  return new Map(
    heads.map(({ index, 1: name = '' }, at) => [
      name,
      dump.slice(index, heads[at + 1]?.index ?? dump.length),
    ]),
  );
}

const RUNTIMES = "plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes";

/**
 * kind's nodes have version 2 today, which containerd itself converts to version 3 (4 has the same keys for
 * runtimes).
 */
describe.each([2, 3])('a node whose containerd is configured in version %i', (version) => {
  let sections: ReadonlyMap<string, string>;

  beforeAll(async () => {
    const own = join(kind, 'base', 'etc', 'containerd', 'config.toml');
    const before = join(directory, `own-${version}.toml`);
    const text = await readFile(own, 'utf8');
    expect(text).toContain('version = 2');
    const migrated = async () =>
      (await run([containerd, '--config', own, 'config', 'migrate'])).replace(
        /^version = 4$/m,
        'version = 3',
      );
    await writeFile(before, version === 2 ? text : await migrated());
    sections = await understood((await read(before)).containerd);
  });

  it('has gVisor under the handler that the RuntimeClass names', () => {
    expect(sections.get(`${RUNTIMES}.runsc`)).toMatch(/runtime_type = 'io\.containerd\.runsc\.v1'/);
    const options = sections.get(`${RUNTIMES}.runsc.options`);
    expect(options).toContain("TypeUrl = 'io.containerd.runsc.v1.options'");
    expect(options).toContain(`ConfigPath = '${NODE.runscConfiguration}'`);
  });

  it('has a pod network only once Felix is ready and has configured it', () => {
    expect(sections.get("plugins.'io.containerd.cri.v1.runtime'.cni")).toContain(
      `conf_dir = '${NODE.networks}'`,
    );
  });

  it('keeps kind’s settings of its own runtime, including systemd’s cgroups', () => {
    expect(sections.get(`${RUNTIMES}.runc`)).toContain("base_runtime_spec = '/etc/containerd/cri-base.json'");
    expect(sections.get(`${RUNTIMES}.runc.options`)).toContain('SystemdCgroup = true');
  });
});

test('the kubelet starts on cgroup v1, too', async () => {
  const { kubeadm } = await read(join(kind, 'base', 'etc', 'containerd', 'config.toml'));
  const documents = parseAllDocuments(kubeadm).map((document) => document.toJS() as { kind: string });
  expect(documents.find((document) => document.kind === 'KubeletConfiguration')).toMatchObject({
    failCgroupV1: false,
    cgroupDriver: 'systemd',
  });
});

test('the API server logs requests and who sent them', async () => {
  const { kubeadm } = await read(join(kind, 'base', 'etc', 'containerd', 'config.toml'));
  const documents = parseAllDocuments(kubeadm).map((document) => document.toJS() as { kind: string });
  const args = {
    'audit-policy-file': '/etc/kubernetes/audit.json',
    'audit-log-path': '/var/log/kubernetes/audit.log',
  };
  expect(documents.find((document) => document.kind === 'ClusterConfiguration')).toMatchObject({
    apiServer: {
      extraArgs: expect.arrayContaining(Object.entries(args).map(([name, value]) => ({ name, value }))),
      extraVolumes: [{ hostPath: '/etc/kubernetes/audit.json' }, { hostPath: '/var/log/kubernetes' }],
    },
  });
});

test('kubeadm waits long enough for a busy machine', async () => {
  const { kubeadm } = await read(join(kind, 'base', 'etc', 'containerd', 'config.toml'));
  const documents = parseAllDocuments(kubeadm).map((document) => document.toJS() as { kind: string });
  expect(documents.find((document) => document.kind === 'InitConfiguration')).toMatchObject({
    apiVersion: 'kubeadm.k8s.io/v1beta4',
    timeouts: { kubernetesAPICall: '20m0s', controlPlaneComponentHealthCheck: '20m0s' },
  });
});

test('neither the controller manager nor the scheduler ends when it renews a lease too late', async () => {
  const { kubeadm } = await read(join(kind, 'base', 'etc', 'containerd', 'config.toml'));
  const documents = parseAllDocuments(kubeadm).map((document) => document.toJS() as { kind: string });
  const alone = { extraArgs: expect.arrayContaining([{ name: 'leader-elect', value: 'false' }]) };
  expect(documents.find((document) => document.kind === 'ClusterConfiguration')).toMatchObject({
    controllerManager: alone,
    scheduler: alone,
  });
});

test('kind leaves the network of pods to Calico', async () => {
  const { disableDefaultCNI } = await read(join(kind, 'base', 'etc', 'containerd', 'config.toml'));
  expect(disableDefaultCNI).toBe(true);
});

test('runsc uses the cgroup driver of kind', () => {
  expect(KIND_RUNSC).toContain('systemd-cgroup = "true"');
});
