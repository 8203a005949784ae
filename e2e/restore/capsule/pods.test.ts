import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { findTool } from '../../cluster/tools.ts';
import { CHART, SOME_IMAGES } from '../../space/chart.ts';
import { finish } from '../../space/kube.ts';
import type { KubeObject } from '../../space/kube-object.ts';
import { copyFor } from '../copies.ts';
import { BACKUP, EXTERNAL, SERVER_B } from '../testing/values.ts';

import { addressesIn, temporaryObjects } from './pods.ts';

let directory: string;
let helm: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'space-restore-'));
  helm = await findTool('helm', directory);
});
afterAll(() => rm(directory, { recursive: true, force: true }));

async function render(values: object): Promise<readonly KubeObject[]> {
  const args = ['template', 'home', CHART, '--namespace', 'home', ...SOME_IMAGES, '--values', '-'];
  const { code, stdout, stderr } = await finish(helm, args, JSON.stringify(values));
  if (code !== 0) throw new Error(stderr);
  return parseAllDocuments(stdout)
    .map((document) => document.toJS() as KubeObject | null)
    .filter((object) => object !== null);
}

interface Named {
  readonly name: string;
}
const namesOf = (all: readonly Named[]) => all.map(({ name }) => name).sort();
const volumesOf = ({ spec }: KubeObject) => namesOf(spec.volumes);
const mountsOf = ({ spec }: KubeObject) => namesOf(spec.containers[0].volumeMounts);

describe('the pods that restore one Capsule’s data', () => {
  it('have no more than they need: no volume, password or certificate of the server, and no token', async () => {
    const { scratch, loader, objects } = temporaryObjects('attic', await render(BACKUP));
    expect(volumesOf(scratch)).toEqual(['backup-ca', 'backup-keys', 'backup-s3', 'data', 'run', 'tmp']);
    expect(mountsOf(scratch)).toEqual(volumesOf(scratch));
    expect(
      scratch['spec'].volumes.find(({ name }: Named) => name === 'data').emptyDir.sizeLimit,
    ).toBeDefined();
    expect([volumesOf(loader), mountsOf(loader), loader['spec'].containers[0].env]).toEqual([
      ['tmp'],
      ['tmp'],
      [],
    ]);
    expect(volumesOf(objects)).toEqual([...new Set(mountsOf(objects))]);
    for (const { metadata, spec } of [scratch, loader, objects]) {
      expect(metadata.namespace).toBe('home-services');
      expect(spec).toMatchObject({ automountServiceAccountToken: false, restartPolicy: 'Never' });
      expect(spec.activeDeadlineSeconds).toBeGreaterThan(0);
      expect(spec.containers).toHaveLength(1);
      expect(spec.containers[0].securityContext).toMatchObject({ allowPrivilegeEscalation: false });
      expect(spec.serviceAccountName).toBeUndefined();
    }
  });

  it('can reach nothing else: nobody can connect to them, and each has one target', async () => {
    const live = await render(BACKUP);
    const { scratch, loader, objects, policies } = temporaryObjects('attic', live);
    const [ofScratch, ofLoader, ofServer] = policies.map((policy) => policy['spec']);
    const server = live.find(
      ({ kind, metadata }) => kind === 'NetworkPolicy' && metadata.name === 'postgres',
    );
    expect(ofScratch).toMatchObject({ policyTypes: ['Ingress', 'Egress'], egress: server?.['spec'].egress });
    expect(ofLoader).toMatchObject({
      policyTypes: ['Ingress', 'Egress'],
      egress: [
        {
          to: [{ namespaceSelector: {}, podSelector: server?.['spec'].podSelector }],
          ports: [{ port: 5432 }],
        },
      ],
    });
    expect([ofScratch.ingress, ofLoader.ingress]).toEqual([undefined, undefined]);
    expect(ofServer.podSelector).toEqual(server?.['spec'].podSelector);
    const selects = (spec: { podSelector: { matchLabels: object } }, { metadata }: KubeObject) =>
      Object.entries(spec.podSelector.matchLabels).every(([key, value]) => metadata.labels?.[key] === value);
    expect([selects(ofScratch, scratch), selects(ofLoader, loader)]).toEqual([true, true]);
    // The labels of these pods match no Service and no other pod's network policy of the Space.
    for (const policy of live.filter(({ kind }) => kind === 'NetworkPolicy' || kind === 'Service')) {
      const labels: Record<string, string> =
        policy['spec'].podSelector?.matchLabels ?? policy['spec'].selector ?? {};
      if (Object.keys(labels).length === 0 || policy.metadata.namespace !== 'home-services') continue;
      const spec = { podSelector: { matchLabels: labels } };
      expect([selects(spec, scratch), selects(spec, loader)]).toEqual([false, false]);
      expect(selects(spec, objects)).toBe(policy.metadata.name === 'backup');
    }
  });

  it('reach every server on which a new Capsule may be placed, and know the address of each', async () => {
    const live = await render({ ...BACKUP, postgres: { servers: [SERVER_B] } });
    const { policies, scratch } = temporaryObjects('attic', live);
    const [ofScratch, ofLoader] = policies.map((policy) => policy['spec']);
    expect(ofLoader.egress).toHaveLength(2);
    expect(ofLoader.egress[1]).toMatchObject({
      to: [{ ipBlock: { cidr: '203.0.113.16/28' } }],
      ports: [{ port: 6432 }],
    });
    expect(JSON.stringify(ofScratch)).not.toContain('203.0.113.16/28');
    expect(scratch['spec'].hostAliases).toBeUndefined();
    const own = live.find(({ kind, metadata }) => kind === 'Service' && metadata.name === 'postgres');
    Object.assign(own?.['spec'], { clusterIP: '10.96.0.7' });
    expect([...addressesIn('home', live)]).toEqual([
      ['pg-b', '203.0.113.17'],
      ['postgres', '10.96.0.7'],
    ]);
    expect(() => addressesIn('other', live)).toThrow(/Deployment other-operator .*is missing/);
  });

  it('are refused if the server is external, and if there is no backup', async () => {
    const external = await render({ ...BACKUP, ...EXTERNAL });
    expect(() => temporaryObjects('attic', external)).toThrow(
      /postgres.external.*whoever operates that server/,
    );
    const without = await render({});
    expect(() => temporaryObjects('attic', without)).toThrow(/no backup/);
  });
});

describe('the copy from which a moment is reached', () => {
  const copy = (label: string, stop: number) => ({ label, timestamp: { start: stop - 10, stop } });
  const [monday, tuesday] = [copy('a', 1_000), copy('b', 2_000)];
  const at = (seconds: number) => new Date(seconds * 1_000).toISOString();

  it('is the last that was finished by then', () => {
    expect(copyFor([monday, tuesday], undefined).label).toBe('b');
    expect(copyFor([monday, tuesday], at(2_000)).label).toBe('b');
    expect(copyFor([monday, tuesday], at(1_999)).label).toBe('a');
  });

  it('is missing, and the first moment that can be reached is named', () => {
    expect(() => copyFor([monday], at(999))).toThrow(
      /was made at 1970-01-01T00:16:40.000Z: give that time or a later/,
    );
    expect(() => copyFor([], undefined)).toThrow(/has no copy of the database/);
  });
});
