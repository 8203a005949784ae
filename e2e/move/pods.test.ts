import { describe, expect, it } from 'vitest';
import { temporaryObjects, withAuthority } from './pods.ts';
import { RULES, SPACE, without } from './testing/space.ts';

const HOUSEHOLD = { space: 'home', capsule: 'household' };

describe('the pod in which databases are copied', () => {
  const { pod, policies } = temporaryObjects(HOUSEHOLD, SPACE);

  it('has the authorities of the servers, and no credential of the broker’s', () => {
    const { volumes, containers, hostAliases, ...spec } = pod['spec'];
    expect(volumes.map(({ name }: { name: string }) => name)).toEqual(['ca', 'further', 'tmp']);
    expect(JSON.stringify(pod)).not.toMatch(/secretName|pg-b-admin|SPACE_NAME/);
    expect(containers).toHaveLength(1);
    expect(containers[0]).toMatchObject({
      image: 'postgres@sha256:2',
      securityContext: { allowPrivilegeEscalation: false },
    });
    expect(spec).toMatchObject({
      automountServiceAccountToken: false,
      restartPolicy: 'Never',
      securityContext: { runAsNonRoot: true },
      imagePullSecrets: [{ name: 'pull' }],
    });
    expect(spec.activeDeadlineSeconds).toBeGreaterThan(0);
    expect(hostAliases).toEqual([
      { ip: '10.96.3.5', hostnames: ['pg-b'] },
      { ip: 'fd00::5', hostnames: ['pg-b'] },
      { ip: '10.96.0.7', hostnames: ['postgres'] },
    ]);
  });

  it('can reach only the servers, and nobody can reach it', () => {
    const [own, into] = policies;
    expect(own?.['spec']).toEqual({
      podSelector: { matchLabels: pod.metadata.labels },
      policyTypes: ['Ingress', 'Egress'],
      egress: [RULES.TO_POSTGRES, RULES.TO_B],
    });
    expect(into?.['spec']).toEqual({
      podSelector: { matchLabels: { part: 'postgres' } },
      policyTypes: ['Ingress'],
      ingress: [{ from: [{ podSelector: { matchLabels: pod.metadata.labels } }], ports: [{ port: 5432 }] }],
    });
  });

  it('needs an image if the first server is external', () => {
    const external = without(
      ['StatefulSet', 'postgres'],
      ['NetworkPolicy', 'postgres'],
      ['Service', 'postgres'],
    );
    expect(() => temporaryObjects(HOUSEHOLD, external)).toThrow(/--image/);
    const { pod: other, policies: walls } = temporaryObjects(
      { ...HOUSEHOLD, image: 'mine@sha256:3' },
      external,
    );
    expect(other['spec'].containers[0].image).toBe('mine@sha256:3');
    expect(walls).toHaveLength(1);
  });

  it.each([
    [['ConfigMap', 'db-servers'] as const, /only one PostgreSQL server: add others/],
    [['Deployment', 'db-broker'] as const, /name a running Space/],
    [['Deployment', 'home-operator'] as const, /name a running Space/],
    [['NetworkPolicy', 'db-broker'] as const, /name a running Space/],
  ])('is not created without %s', (missing, why) => {
    expect(() => temporaryObjects(HOUSEHOLD, without(missing))).toThrow(why);
  });
});

it('servers are verified by their own CAs, at their paths in the pod', () => {
  const url = (root: string) => `postgresql://spc_a:x@pg:5432/spc_a?sslmode=verify-full&sslrootcert=${root}`;
  const [tls, external] = ['/etc/space/tls/ca.crt', '/etc/space/tls/postgres.crt'];
  expect(withAuthority(url(tls), 'main')).toBe(url('/etc/space/ca/ca.crt'));
  expect(withAuthority(url(external), 'main')).toBe(url('/etc/space/postgres-ca/ca.crt'));
  expect(withAuthority(url(external), 'b')).toBe(url('/etc/space/db-servers/b.crt'));
  const plain = 'postgresql://spc_a:x@pg:5432/spc_a?sslmode=disable';
  expect(withAuthority(plain, 'b')).toBe(plain);
});
