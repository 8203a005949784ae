import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Helm, podsIn, set, startHelm } from './testing/rendered.ts';

const INJECTED = 'podSecurity.runAsUser=injected';
const PG = 'postgres.external';
const OWN_POSTGRES = [
  `${PG}.host=pg-rw.db.svc`,
  `${PG}.assistants.addresses={10.96.3.4}`,
  `${PG}.ca=PEM`,
  `${PG}.cidrs={203.0.113.0/28}`,
  'existingSecrets.dbAdmin=pg-admin',
  'existingSecrets.objectStoreRegistry=pg-objects',
];
const IDS = ['runAsUser', 'runAsGroup', 'fsGroup'] as const;

let helm: Helm;
beforeAll(async () => {
  helm = await startHelm();
}, 600_000);
afterAll(() => helm?.close());

describe('the user of the Space’s own pods', () => {
  it('is named by the chart by default, and is never root', async () => {
    const users = new Map(
      [...podsIn(await helm.render())].map(([name, { securityContext }]) => [
        name,
        IDS.map((id) => securityContext[id]),
      ]),
    );
    const [own, group] = [
      [1000, 1000, 1000],
      [1000, 1000, undefined],
    ];
    expect(Object.fromEntries(users)).toEqual({
      // Its image names a user, and none of its files belongs to a particular one.
      canary: [undefined, undefined, undefined],
      'db-broker': own,
      'home-console': own,
      'home-keys': group,
      'home-keys-HASH': group,
      'home-operator': own,
      'home-test': group,
      'home-uninstall-guard': group,
      'objectstore-broker': own,
      'platform-assistant-egress': own,
      postgres: [999, 999, 999],
      s3: own,
    });
  });

  it('is left to the cluster where that gives one, and is not root then either', async () => {
    const pods = podsIn(await helm.render(...set(INJECTED, ...OWN_POSTGRES)));
    expect(pods.size).toBeGreaterThan(8);
    for (const [name, { securityContext, containers }] of pods) {
      const named = IDS.filter((id) => id in securityContext);
      expect([name, named]).toEqual([name, []]);
      expect(securityContext).toMatchObject({
        runAsNonRoot: true,
        seccompProfile: { type: 'RuntimeDefault' },
      });
      for (const container of containers)
        expect(Object.keys(container.securityContext)).not.toContain('runAsUser');
    }
  });

  it('cannot be left to the cluster for the embedded PostgreSQL, and the refusal says what can be done', async () => {
    const { code, stderr } = await helm.template(...set(INJECTED));
    expect(code).not.toBe(0);
    expect(stderr).toContain(
      'podSecurity.runAsUser is injected, but the embedded PostgreSQL can run only as the user 999',
    );
    expect(stderr).toContain('postgres.external.host');
  });

  it('has only these two values', async () => {
    const { code, stderr } = await helm.template(...set('podSecurity.runAsUser=root'));
    expect(code).not.toBe(0);
    expect(stderr).toMatch(/podSecurity.runAsUser/);
  });
});
