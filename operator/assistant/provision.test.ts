/** What the status says of a database when the API server refuses a write, and what a deletion concludes from that. */
import { Secret } from '@space/contracts/secret';
import { checkManifest } from '@space/manifests';
import { describe, expect, it } from 'vitest';
import { type Finding, no, toConditions, unknown, yes } from '../conditions.ts';
import type { Context } from '../context.ts';
import type { Assistant, SecretObject } from '../kinds.ts';
import { ANNOTATION } from '../names.ts';
import { ApiError, WriteRefusedError } from '../runtime/errors.ts';
import { manifest } from '../testing/manifest.ts';
import { names } from '../testing/names.ts';
import type { RunFacts } from './facts.ts';
import { ownsDatabase } from './fate.ts';
import { describeWorkload } from './identity.ts';
import type { Plan } from './plan.ts';
import { ensureData } from './provision.ts';

const base64 = (text: string) => Buffer.from(text).toString('base64');
const REFUSED = new WriteRefusedError(
  'write Secret "ledger-database"',
  new ApiError({ status: 403, reason: 'Forbidden', message: 'no' }),
  'a policy refused it',
);
const WAITING = unknown('Waiting', 'Waits for SandboxReady.');
const READY = yes('Ready', 'It has a database of its own.');
const claim = (data: SecretObject['data'] = {}): SecretObject => ({
  metadata: {
    name: 'ledger-database',
    resourceVersion: '7',
    annotations: { [ANNOTATION.owner]: 'one' },
  },
  data,
});
const URL_DATA = { DATABASE_URL: base64('postgresql://role:secret@main:5432/role') };

interface Given {
  /** What the status said of the database before. */
  readonly before?: Finding;
  /** What the plan says of it. */
  readonly planned?: Finding;
  readonly databaseSecret?: SecretObject | undefined;
  readonly rotate?: boolean;
}

/** One look at an Assistant whose Secret the API server does not let the operator write. */
async function look({ before, planned = before ?? WAITING, databaseSecret, rotate }: Given) {
  const check = checkManifest(manifest('ledger'));
  if (!check.ok) throw new Error('the manifest is not valid');
  const conditions = toConditions(before ? { DatabaseReady: before } : {}, [], 1, () => '');
  const assistant: Assistant = {
    metadata: {
      name: 'ledger',
      uid: 'one',
      ...(rotate && { annotations: { [ANNOTATION.rotate]: 'again' } }),
    },
    spec: { capsule: 'household', image: 'x', manifest: check.manifest },
    ...(before && { status: { conditions } }),
  } as Assistant;
  const asked: string[] = [];
  const context = {
    names,
    client: { call: async () => ({ data: { principal: base64('spc_dbp_x') } }) },
    stores: { capsules: { get: () => undefined } },
    database: {
      createApp: async (...[, id]: readonly string[]) => {
        asked.push(id ?? '');
        return new Secret('postgresql://role:another@main:5432/role');
      },
    },
    spaceCa: async () => undefined,
    databaseCa: async () => undefined,
    writer: {
      create: () => Promise.reject(REFUSED),
      merge: () => Promise.reject(REFUSED),
      applyStatus: async () => {},
    },
    events: { record: () => {} },
    appUsages: { forget: () => {} },
    now: () => '',
  } as unknown as Context;
  const workload = describeWorkload(names, assistant, check.manifest);
  const facts = { assistant, workload, databaseSecret } as RunFacts;
  const plan = { findings: { DatabaseReady: planned }, accepted: true } as unknown as Plan;
  const data = await ensureData(context, facts, plan, new AbortController().signal);
  // The namespace goes with the claim, and the Assistant is deleted: only the status says what there was.
  const status = { conditions: toConditions({ DatabaseReady: data.database.finding }, [], 1, () => '') };
  const owns = ownsDatabase({ ...assistant, status } as Assistant, undefined, [assistant]);
  const { status: is, reason } = data.database.finding;
  return { asked, owns, says: `${is} ${reason}`, refused: data.refused?.reason, retry: data.database.retry };
}

describe('a refused write', () => {
  it('of the claim says so, and is no sign of a database where no broker was asked', async () => {
    expect(await look({})).toEqual({
      ...{ asked: [], owns: false, says: 'False WriteRefused', refused: undefined, retry: REFUSED },
    });
  });

  it('of the URL leaves in the status that the broker was asked', async () => {
    expect(await look({ databaseSecret: claim() })).toEqual({
      ...{ asked: ['ledger'], owns: true, says: 'Unknown Starting', refused: 'WriteRefused', retry: REFUSED },
    });
  });

  it('of another URL leaves in the status that there is a database', async () => {
    expect(await look({ before: READY, databaseSecret: claim(URL_DATA), rotate: true })).toEqual({
      ...{ asked: ['ledger'], owns: true, says: 'True Ready', refused: 'WriteRefused', retry: REFUSED },
    });
  });

  it.each([
    ['has a database', READY, 'True Ready'],
    ['may have one', no('BrokerUnreachable', 'It does not answer.'), 'Unknown Starting'],
  ])('of a claim that was lost leaves in the status that the Assistant %s', async (_, before, says) => {
    expect(await look({ before })).toEqual({
      ...{ asked: [], owns: true, says, refused: 'WriteRefused', retry: REFUSED },
    });
  });
});
