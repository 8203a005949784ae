import { expect, it } from 'vitest';
import type { Step } from '../progress/index.ts';
import type { Kube } from '../space/kube.ts';
import { exchangeCredentials } from './exchange.ts';

const STEP: Step = { note: () => undefined } as unknown as Step;

/** A cluster in which brokers give an administrator these answers; calls are recorded. */
function cluster(answers: Readonly<Record<string, string>>) {
  const asked: string[] = [];
  const kube = {
    run: async (args: readonly string[]) => {
      const [deployment = ''] = args.filter((arg) => arg.startsWith('deploy/'));
      const command = [deployment.slice(7), ...args.slice(args.indexOf('/app/admin.mjs') + 1)].join(' ');
      asked.push(command);
      return { code: 0, stdout: answers[command] ?? '', stderr: '' };
    },
    list: async () => [],
  } as unknown as Kube;
  return { kube, asked };
}

const ANSWERS = {
  'db-broker replace-principals': '{"replaced":1,"unknown":["shed"]}',
  'objectstore-broker replace-principals': '{"replaced":2,"unknown":[]}',
  'objectstore-broker custody': [
    '{"capsule":"attic","state":"rollback","sets":1}',
    '{"capsule":"cabin","state":"rollback","sets":2}',
    '{"capsule":"household","state":"agree","sets":0}',
  ].join('\n'),
  'db-broker list': JSON.stringify({
    capsule: 'household',
    state: 'active',
    databases: [
      { app: '', state: 'ready' },
      { app: 'ledger', state: 'ready' },
      { app: 'gone', state: 'dropping' },
    ],
  }),
};
const exchange = (kube: Kube, accepted: readonly string[]) =>
  exchangeCredentials({ kube, space: 'home', signal: new AbortController().signal, accepted }, STEP);

it('credentials of a Capsule’s own that were set back stay closed, since one of them may have been retired since', async () => {
  const { kube, asked } = cluster(ANSWERS);
  expect(await exchange(kube, [])).toEqual({
    registered: [{ capsule: 'household', apps: ['', 'ledger'] }],
    unknown: [{ capsule: 'shed', broker: 'db-broker' }],
    setBack: ['attic', 'cabin'],
    accepted: [],
  });
  expect(asked).toEqual(
    expect.arrayContaining(['db-broker rotate --all', 'objectstore-broker restore principals']),
  );
  expect(asked.filter((command) => /accept|discard/.test(command))).toEqual([]);
});

it('they stay in use only for Capsules that somebody names, and these are reported', async () => {
  const { kube, asked } = cluster(ANSWERS);
  expect(await exchange(kube, ['cabin', 'household'])).toMatchObject({
    setBack: ['attic'],
    accepted: ['cabin'],
  });
  expect(asked.filter((command) => /accept|discard/.test(command))).toEqual([
    'objectstore-broker restore accept cabin',
  ]);
});
