import { expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { KIND_RUNSC, kindConfig } from './kind.ts';

const config = kindConfig({
  runsc: '/cache/runsc',
  shim: '/cache/containerd-shim-runsc-v1',
  configuration: '/space/runsc.toml',
});

test('the node gets gVisor and its configuration, and cannot change them', () => {
  expect(config).toMatchObject({
    kind: 'Cluster',
    apiVersion: 'kind.x-k8s.io/v1alpha4',
    nodes: [
      {
        role: 'control-plane',
        extraMounts: [
          { hostPath: '/cache/runsc', containerPath: '/usr/local/bin/runsc', readOnly: true },
          {
            hostPath: '/cache/containerd-shim-runsc-v1',
            containerPath: '/usr/local/bin/containerd-shim-runsc-v1',
            readOnly: true,
          },
          { hostPath: '/space/runsc.toml', containerPath: '/etc/containerd/runsc.toml', readOnly: true },
        ],
      },
    ],
  });
});

test('the handler is registered under the keys of containerd 2', () => {
  const { containerdConfigPatches } = parse(stringify(config)) as { containerdConfigPatches: string[] };
  expect(containerdConfigPatches.join('\n').split('\n')).toEqual([
    '[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runsc]',
    '  runtime_type = "io.containerd.runsc.v1"',
    '[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runsc.options]',
    '  TypeUrl = "io.containerd.runsc.v1.options"',
    '  ConfigPath = "/etc/containerd/runsc.toml"',
  ]);
});

test('runsc uses the cgroup driver of kind', () => {
  expect(KIND_RUNSC).toContain('systemd-cgroup = "true"');
});
