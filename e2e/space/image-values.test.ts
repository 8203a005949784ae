import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type IMAGE_VALUES, someImage } from './chart.ts';
import { type Helm, objectsIn, podsIn, set, startHelm } from './testing/rendered.ts';

const DIGEST = `sha256:${'0123456789abcdef'.repeat(4)}`;
const REPOSITORIES = {
  'operator.image': 'space/operator',
  'sandbox.attester.image': 'space/attester',
  'dbBroker.image': 'space/db-broker',
  'postgres.image': 'space/postgres',
  'egress.image': 'space/egress',
  'objectStore.image': 'space/objectstore-broker',
  's3.image': 'versity/versitygw',
  'console.image': 'space/console',
} as const satisfies Record<(typeof IMAGE_VALUES)[number], string>;
const inParts = Object.entries(REPOSITORIES).flatMap(([value, repository]) => [
  `${value}.repository=${repository}`,
  `${value}.digest=${DIGEST}`,
]);

let helm: Helm;
beforeAll(async () => {
  helm = await startHelm();
}, 600_000);
afterAll(() => helm?.close());

const renderBare = async (...values: readonly string[]) => {
  const { code, stdout, stderr } = await helm.templateBare(...set(...values));
  if (code !== 0) throw new Error(stderr);
  // Helm reports there when values have two types.
  expect(stderr).not.toMatch(/table/);
  return objectsIn(stdout);
};

const imageOf = (objects: Awaited<ReturnType<typeof renderBare>>, name: string): string =>
  podsIn(objects).get(name).containers[0].image;

describe('an image of the chart', () => {
  it('is named whole or in parts, and every pod has the same reference either way', async () => {
    const whole = Object.entries(REPOSITORIES).map(
      ([value, repository]) => `${value}=registry.test:5000/home/${repository}@${DIGEST}`,
    );
    const parts = await renderBare('image.registry=registry.test:5000/home', ...inParts);
    expect(parts).toEqual(await renderBare(...whole));
    for (const [name, { containers }] of podsIn(parts))
      expect([name, containers[0].image]).toEqual([
        name,
        expect.stringMatching(/^registry\.test:5000\/home\/[a-z/-]+@sha256:[0-9a-f]{64}$/),
      ]);
  });

  it('in parts is in the registry that its repository names, if none is set for all', async () => {
    const made = await renderBare(...inParts, 'operator.image.repository=registry.test/mine/operator');
    expect(imageOf(made, 'home-operator')).toBe(`registry.test/mine/operator@${DIGEST}`);
    expect(imageOf(made, 's3')).toBe(`versity/versitygw@${DIGEST}`);
  });

  it('may have a registry of its own', async () => {
    const made = await renderBare('image.registry=registry.test', ...inParts, 's3.image.registry=docker.io');
    expect(imageOf(made, 's3')).toBe(`docker.io/versity/versitygw@${DIGEST}`);
    expect(imageOf(made, 'home-operator')).toBe(`registry.test/space/operator@${DIGEST}`);
  });

  it('in parts is used by its digest, whatever its tag is', async () => {
    const made = await renderBare(...inParts, 'operator.image.tag=1.2.3');
    expect(imageOf(made, 'home-operator')).toBe(`space/operator@${DIGEST}`);
  });

  it('in parts is used by its tag if tags are allowed', async () => {
    const tagged = ['operator.image.tag=1.2.3', 'operator.image.digest=null', 'image.allowTags=true'];
    expect(imageOf(await renderBare(...inParts, ...tagged), 'home-operator')).toBe('space/operator:1.2.3');
  });

  it('of the attester is known to operator and admission policies, as are the accepted earlier ones', async () => {
    const earlier = someImage('attester:before');
    const made = await renderBare(
      'image.registry=registry.test',
      ...inParts,
      `sandbox.attester.accepted[0]=${earlier}`,
      'sandbox.attester.accepted[1].repository=space/attester',
      `sandbox.attester.accepted[1].digest=sha256:${'f'.repeat(64)}`,
    );
    const now = `registry.test/space/attester@${DIGEST}`;
    expect(podsIn(made).get('home-operator').containers[0].env).toContainEqual({
      name: 'SANDBOX_ATTESTER_IMAGE',
      value: now,
    });
    const policy = (name: string) =>
      JSON.stringify(
        made.find(({ kind, metadata }) => kind === 'ValidatingAdmissionPolicy' && metadata.name === name)?.[
          'spec'
        ],
      ).replaceAll('\\"', '"');
    const known = [now, earlier, `registry.test/space/attester@sha256:${'f'.repeat(64)}`];
    expect(policy('home-sandbox')).toContain(JSON.stringify(known));
    expect(policy('home-operator-fence')).toContain(`container.image == "${now}"`);
  });

  it('is pulled with the Secrets that you name, by every pod, and the operator gets them for Assistants', async () => {
    const secrets = ['one', 'two'].map((name) => ({ name }));
    const made = await renderBare(
      ...inParts,
      ...secrets.map(({ name }, at) => `image.pullSecrets[${at}].name=${name}`),
    );
    for (const [name, { imagePullSecrets }] of podsIn(made))
      expect([name, imagePullSecrets]).toEqual([name, secrets]);
    const { env } = podsIn(made).get('home-operator').containers[0];
    expect(env).toContainEqual({ name: 'IMAGE_PULL_SECRETS', value: 'one,two' });
  });

  it.each([
    [
      'a tag and no digest where digests are demanded',
      [...inParts, 'egress.image.digest=null', 'egress.image.tag=v1'],
      'there is no digest in egress.image: ',
    ],
    [
      'a repository alone, though tags are allowed',
      [...inParts, 'egress.image.digest=null', 'image.allowTags=true'],
      'there is neither a digest nor a tag in egress.image: ',
    ],
    ['parts without a repository', [...inParts, 'egress.image.repository=null'], 'egress.image'],
    ['half a digest', [...inParts, 'egress.image.digest=sha256:01'], 'egress.image.digest'],
    [
      'a digest without its algorithm',
      [...inParts, `egress.image.digest=${'0'.repeat(64)}`],
      'egress.image.digest',
    ],
    [
      'a number for a tag, of which YAML may have left out a zero',
      [...inParts, 'egress.image.tag=1'],
      'egress.image.tag',
    ],
    ['a tag with a colon', [...inParts, 'egress.image.tag=:1'], 'egress.image.tag'],
    [
      'a whole reference for a repository',
      [...inParts, `egress.image.repository=space/egress@${DIGEST}`],
      'egress.image.repository',
    ],
    [
      'a tag in a repository',
      [...inParts, 'egress.image.repository=registry.test/space/egress:1'],
      'egress.image.repository',
    ],
    ['a part that is not known', [...inParts, 'egress.image.name=egress'], 'name'],
    ['a registry with a scheme', [...inParts, 'image.registry=https://registry.test'], 'image.registry'],
    ['a registry with a slash at its end', [...inParts, 'image.registry=registry.test/'], 'image.registry'],
    [
      'a registry for all beside a whole reference, which it would not be put before',
      [
        ...inParts.filter((value) => !value.startsWith('egress.')),
        `egress.image=${someImage('egress')}`,
        'image.registry=registry.test',
      ],
      'image.registry is set, but there is a complete reference in egress.image, ',
    ],
    [
      'an accepted attester by its tag',
      [
        ...inParts,
        'sandbox.attester.accepted[0].repository=space/attester',
        'sandbox.attester.accepted[0].tag=v1',
      ],
      'there is no digest in sandbox.attester.accepted[0]: ',
    ],
  ])('is refused as %s', async (_, values, message) => {
    const { code, stderr } = await helm.templateBare(...set(...values));
    expect(code).not.toBe(0);
    // One version of Helm writes a path with dots, the other with slashes.
    expect(stderr.replaceAll('/', '.').replaceAll("'", '')).toContain(message.replaceAll('/', '.'));
  });
});
