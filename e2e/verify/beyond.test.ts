import { describe, expect, it } from 'vitest';
import type { KubeObject } from '../space/kube-object.ts';
import { targetsBeyond } from './beyond.ts';
import type { Discovered } from './discover.ts';
import { targetKey } from './matrix.ts';

const object = (name: string, spec: object, status: object = {}): KubeObject => ({
  apiVersion: 'v1',
  kind: 'Any',
  metadata: { name },
  spec,
  status,
});
const around = (dns: Partial<Discovered['dns']>): Discovered => ({
  space: 'home',
  picture: { backup: false },
  pods: [],
  services: [],
  nodes: [],
  policies: [],
  dns: { services: [], pods: [], ...dns },
  apiServer: undefined,
  apiServerEnds: [],
  kubernetes: 'v1',
  plugins: [],
});
const keysOf = (dns: Partial<Discovered['dns']>, to: string) =>
  targetsBeyond(around(dns), [])
    .filter((target) => target.to === to)
    .map(targetKey);

const service = object('kube-dns', {
  clusterIPs: ['10.96.0.10'],
  ports: [
    { name: 'dns', port: 53, protocol: 'UDP', targetPort: 'dns' },
    { name: 'dns-tcp', port: 53, protocol: 'TCP', targetPort: 'dns' },
    { name: 'metrics', port: 9153, protocol: 'TCP', targetPort: 9153 },
  ],
});
const pod = (port: number) =>
  object(
    'coredns-1',
    {
      containers: [
        {
          ports: [
            { name: 'dns', containerPort: port, protocol: 'UDP' },
            { name: 'metrics', containerPort: 9153 },
          ],
          livenessProbe: { httpGet: { port: 8080 } },
          readinessProbe: { httpGet: { port: 8181 } },
        },
      ],
    },
    { podIPs: [{ ip: '10.0.2.1' }, { ip: 'fd00::21' }] },
  );

describe('the cluster’s DNS', () => {
  it('is a target at its Service and at each address of its pods, where it answers queries', () => {
    expect(keysOf({ services: [service], pods: [pod(53)] }, 'dns')).toEqual([
      ...['udp 10.96.0.10 53', 'tcp 10.96.0.10 53'],
      ...['udp 10.0.2.1 53', 'tcp 10.0.2.1 53'],
      ...['udp fd00::21 53', 'tcp fd00::21 53'],
    ]);
  });

  it('is another target at every other port, including 53 if its pods listen elsewhere', () => {
    const others = keysOf({ services: [service], pods: [pod(5353)] }, 'other ports of dns');
    expect(others).toEqual(expect.arrayContaining(['tcp 10.96.0.10 9153', 'udp 10.0.2.1 53']));
    for (const port of [853, 9153, 8080, 8181]) expect(others).toContain(`tcp 10.0.2.1 ${port}`);
    expect(others).not.toContain('udp 10.0.2.1 5353');
    expect(keysOf({ services: [service], pods: [pod(53)] }, 'other ports of dns')).toContain(
      'udp fd00::21 5353',
    );
  });
});
