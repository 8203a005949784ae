import { describe, expect, it } from 'vitest';
import type { Stored } from './cluster.ts';
import { type Decision, decide } from './decide.ts';
import { type Fields, type Location, type Material, materialsOf, verifyingKeys } from './materials.ts';

const everything = {
  servicesNamespace: 'home-services',
  tls: true,
  objectStore: true,
  byok: true,
  console: true,
  backup: false,
};
const ALL = materialsOf(everything);
const named = (name: string): Material => ALL.find((material) => material.name === name) as Material;
const stored = (data: Fields): Stored => ({ annotations: {}, data, resourceVersion: '1' });
const at = (...all: readonly (readonly [Location, Fields])[]) =>
  new Map(all.map(([place, data]) => [place, stored(data)]));
const made = (decision: Decision): Fields => {
  if (decision.kind !== 'make') throw new Error(`it is to ${decision.kind}`);
  return decision.data;
};
const fresh = (material: Material) => made(decide(material, { stored: at(), promisedBy: [] }));

describe.each(ALL.map((material) => [material.name, material] as const))('%s', (_, material) => {
  it('is created if it never existed, and then kept', () => {
    const data = fresh(material);
    expect(fresh(material)).not.toEqual(data);
    const both = at(...material.places.map((place) => [place, data] as const));
    expect(decide(material, { stored: both, promisedBy: [] })).toEqual({ kind: 'keep', differing: false });
  });

  it('is refused if it existed before, with what is lost and where that is recorded; is created again if nothing depends on it', () => {
    const decision = decide(material, { stored: at(), promisedBy: ['ConfigMap a', 'annotation b'] });
    if (material.loss === undefined) return expect(decision).toMatchObject({ kind: 'make' });
    expect(decision).toMatchObject({ kind: 'refuse' });
    expect(JSON.stringify(decision)).toContain(material.loss);
    expect(JSON.stringify(decision)).toContain(`remove ${material.name} from ConfigMap a and annotation b`);
  });

  it('is refused if a key is missing or malformed, and the reason contains nothing of it', () => {
    const data = fresh(material);
    const [place] = material.places as readonly [Location];
    for (const key of Object.keys(material.fields)) {
      const { [key]: _, ...rest } = data;
      for (const wrong of [rest, { ...data, [key]: '' }, { ...data, [key]: 'was "ist das"\u0007?' }]) {
        const decision = decide(material, { stored: at([place, wrong]), promisedBy: [] });
        expect(decision).toMatchObject({ kind: 'refuse' });
        expect(JSON.stringify(decision)).toContain(`existingSecrets.${material.value}`);
        expect(JSON.stringify(decision)).not.toContain('ist das');
        const said = key in wrong ? `its key ${key} is not ` : `its key ${key} is missing; it is `;
        expect(JSON.stringify(decision)).toContain(said);
      }
    }
  });
});

describe('a Secret that both namespaces have', () => {
  const material = named('db-provisioner');

  it('is copied to the namespace that lost it, also if it was recorded', () => {
    const data = fresh(material);
    for (const [here, lost] of [
      ['services', 'system'],
      ['system', 'services'],
    ] as const)
      expect(decide(material, { stored: at([here, data]), promisedBy: ['a'] })).toEqual({
        kind: 'make',
        places: [lost],
        data,
      });
  });

  it('is unchanged if the copies differ, and the difference is reported', () => {
    const both = at(['services', fresh(material)], ['system', fresh(material)]);
    expect(decide(material, { stored: both, promisedBy: [] })).toEqual({ kind: 'keep', differing: true });
  });

  it('may have two lines during an exchange', () => {
    const token = `${fresh(material)['token']}\n${fresh(material)['token']}\n`;
    const both = at(['services', { token }], ['system', { token }]);
    expect(decide(material, { stored: both, promisedBy: [] })).toMatchObject({ kind: 'keep' });
  });
});

it('keeps the URL in step with password and TLS, and the password as it is', () => {
  const material = named('db-admin');
  const plain = materialsOf({ ...everything, tls: false }).find(({ name }) => name === 'db-admin');
  const data = fresh(material);
  expect(data['url']).toBe(
    `postgresql://space_broker:${data['password']}@postgres.home-services.svc:5432/space_registry?sslmode=verify-full&sslrootcert=/etc/space/ca/ca.crt`,
  );
  const decision = decide(plain as Material, { stored: at(['services', data]), promisedBy: ['a'] });
  expect(decision).toMatchObject({
    kind: 'derive',
    place: 'services',
    data: { url: expect.stringMatching(/\?sslmode=disable$/) },
  });
  expect(Object.keys((decision as { data: Fields }).data)).toEqual(['url']);
});

it('needs nothing for a part that the Space does not have', () => {
  const names = (options: Partial<typeof everything>) =>
    materialsOf({ ...everything, ...options }).map(({ name }) => name);
  expect(names({}).filter((name) => !names({ byok: false }).includes(name))).toEqual(['objectstore-grants']);
  expect(names({ objectStore: false }).join()).not.toMatch(/objectstore|s3/);
});

describe('the keys that grants are verified with', () => {
  const signing = () => fresh(named('objectstore-grants'))['key'] ?? '';
  const kids = (keys: string) => JSON.parse(keys).keys.map(({ kid }: { kid: string }) => kid);

  it('contain the public half of the signing key, and others during an exchange', () => {
    const [old, next] = [signing(), signing()];
    const first = verifyingKeys(old, undefined);
    const second = verifyingKeys(next, undefined);
    const both = JSON.stringify({ keys: [...JSON.parse(first).keys, ...JSON.parse(second).keys] });
    expect(kids(first)).toHaveLength(1);
    for (const key of [old, next]) expect(verifyingKeys(key, both)).toBe(both);
    expect(kids(verifyingKeys(next, first))).toEqual(kids(second));
    expect(first).not.toContain('"d"');
  });

  it.each(['', '{}', 'null', '{"keys":7}', '{"keys":[null]}'])(
    'are created again if they are %s',
    (present) => {
      const key = signing();
      expect(verifyingKeys(key, present)).toBe(verifyingKeys(key, undefined));
    },
  );
});
