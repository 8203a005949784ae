import { expect, it } from 'vitest';
import { createSteps } from '../progress/index.ts';
import type { Kube } from '../space/kube.ts';
import type { KubeObject } from '../space/kube-object.ts';
import { moveCapsule, takeBack } from './move.ts';
import { SPACE } from './testing/space.ts';

const URLS = {
  from: 'postgresql://spc_1:s3cret@postgres:5432/spc_1',
  to: 'postgresql://spc_1:s3cret@pg-b:5432/spc_1',
};
const BEGUN = JSON.stringify({
  moving: 'household',
  from: 'main',
  to: 'b',
  attempt: 'a1',
  copies: [{ app: '', name: 'spc_1', ...URLS }],
});
const MOVED = JSON.stringify({ moved: 'household', to: 'b' });
interface Said {
  readonly code?: number;
  readonly stdout?: string;
  readonly stderr?: string;
}

/** A cluster in which programs give these answers, as often as they are called; calls are recorded. */
function cluster(answers: Readonly<Record<string, Said>>) {
  const done: string[] = [];
  const written: string[] = [];
  const pods = new Map<string, KubeObject>();
  const run: Kube['run'] = async (args, input = '') => {
    const program = args.includes('--') ? args.slice(args.indexOf('--') + 1).join(' ') : args.join(' ');
    done.push(program.replace(/^node \/app\/admin.mjs /, ''));
    if (input !== '') written.push(input);
    const { code = 0, stdout = '', stderr = '' } = answers[done.at(-1) ?? ''] ?? {};
    return { code, stdout, stderr };
  };
  const kube = {
    run,
    apply: async (...objects: KubeObject[]) => {
      for (const one of objects)
        pods.set(one.metadata.name, { ...one, status: { phase: 'Running' } } as KubeObject);
    },
    get: async (kind: string, name: string) =>
      kind === 'pod'
        ? pods.get(name)
        : SPACE.find((one) => one.kind.toLowerCase() === kind && one.metadata.name === name),
    list: async () => [
      { metadata: { name: 'ledger' }, spec: { capsule: 'household' } },
      { metadata: { name: 'other' }, spec: { capsule: 'attic' } },
    ],
    remove: async (_kind: string, name: string) => {
      pods.delete(name);
    },
  } as unknown as Kube;
  return { kube, done, written, pods };
}

const about = (kube: Kube) => ({
  kube,
  space: 'home',
  namespace: 'home',
  capsule: 'household',
  to: 'b',
  image: undefined,
  steps: createSteps({ output: { write: () => true } as never }),
  signal: new AbortController().signal,
  now: () => new Date('2026-11-26T09:00:00.123Z'),
});
const MARK = 'platform.space/rotate=moved-to-b-2026-11-26T09:00:00Z';
const annotated = (kind: string, name: string) => `annotate ${kind} ${name} -n home --overwrite ${MARK}`;

it('closes, copies with secrets on the standard input only, switches, and requests new URLs', async () => {
  const { kube, done, written, pods } = cluster({
    'move household b': { stdout: BEGUN },
    '/bin/sh /usr/share/space/copy.sh': { stdout: '{"bytes":8000,"sha256":"x"}' },
    'move household b --copied a1': { stdout: MOVED },
  });
  expect(await moveCapsule(about(kube))).toEqual({
    capsule: 'household',
    server: 'b',
    databases: 1,
    bytes: 8_000,
    assistants: ['ledger'],
    unanswered: [],
  });
  expect(done).toEqual([
    'delete pod move-household -n home-services --wait=true --ignore-not-found',
    'move household b',
    '/bin/sh /usr/share/space/copy.sh',
    'move household b --copied a1',
    annotated('capsule', 'household'),
    annotated('assistant', 'ledger'),
  ]);
  expect(written).toEqual([`${URLS.from}\n${URLS.to}\nspc_1\n`]);
  expect(pods.size).toBe(0);
});

it('a failed copy is undone, and names that a tenant chose are shown without control characters', async () => {
  const { kube, done, pods } = cluster({
    'move household b': { stdout: BEGUN },
    '/bin/sh /usr/share/space/copy.sh': {
      code: 1,
      stderr: 'differs: \u001b[2Jevil\ncommand terminated with exit code 1\n',
    },
    'move household --back': { stdout: '{"stays":"household"}' },
  });
  const failed = moveCapsule(about(kube));
  await expect(failed).rejects.toThrow('database spc_1: differs: ?[2Jevil\nThe move was undone');
  await expect(failed).rejects.not.toThrow(/s3cret/);
  expect(done.at(-1)).toBe('move household --back');
  expect(pods.size).toBe(0);
});

it('for a Capsule that has moved already only new URLs are requested', async () => {
  const { kube, done } = cluster({
    'move household b': { stdout: JSON.stringify({ moved: 'household', to: 'b', unanswered: ['c'] }) },
  });
  expect(await moveCapsule(about(kube))).toMatchObject({ databases: 0, unanswered: ['c'] });
  expect(done.slice(-2)).toEqual([annotated('capsule', 'household'), annotated('assistant', 'ledger')]);
});

it('a refusal of the broker is reported, and nothing is copied or undone', async () => {
  const { kube, done } = cluster({
    'move household b': { code: 1, stderr: 'server b is draining and gets no more Capsules\n' },
  });
  await expect(moveCapsule(about(kube))).rejects.toThrow(/^server b is draining and gets no more Capsules$/);
  expect(done.at(-1)).toBe('move household b');
});

it('a move can be undone by a command of its own', async () => {
  const { kube } = cluster({
    'move household --back': { stdout: '{"stays":"household","unanswered":["b"]}' },
  });
  expect(await takeBack(about(kube))).toEqual({ capsule: 'household', unanswered: ['b'] });
});
