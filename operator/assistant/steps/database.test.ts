/** What becomes of an Assistant's Secret and pods when the broker has another URL for it, or a server came to the Space. */
import { Secret } from '@space/contracts/secret';
import { checkManifest } from '@space/manifests';
import { describe, expect, it } from 'vitest';
import type { Context } from '../../context.ts';
import type { SecretObject } from '../../kinds.ts';
import { ANNOTATION } from '../../names.ts';
import type { Happening } from '../../runtime/events.ts';
import { manifest } from '../../testing/manifest.ts';
import { names } from '../../testing/names.ts';
import type { RunFacts } from '../facts.ts';
import { describeWorkload } from '../identity.ts';
import { deploymentObject } from '../pod-template.ts';
import { ensureDatabase } from './database.ts';

const base64 = (text: string) => Buffer.from(text).toString('base64');
const urlAt = (host: string) => `postgresql://role:secret@${host}:5432/role?sslmode=verify-full`;

interface Given {
  /** The server that the broker names. */
  readonly host?: string;
  readonly rotate?: string;
  readonly authorities?: string;
}

/** One look at an Assistant whose Secret has a URL on the server `main`, and two authorities. */
async function look({ host = 'main', rotate, authorities = 'of b' }: Given) {
  const check = checkManifest(manifest('ledger'));
  if (!check.ok) throw new Error('the manifest is not valid');
  const annotations = rotate === undefined ? {} : { [ANNOTATION.rotate]: rotate };
  const spec = { capsule: 'household', image: 'registry.test/ledger:1', manifest: check.manifest };
  const assistant = { metadata: { name: 'ledger', uid: 'one', annotations }, spec };
  const workload = describeWorkload(names, assistant, check.manifest);
  const databaseSecret: SecretObject = {
    metadata: { name: 'ledger-database', resourceVersion: '7' },
    data: {
      DATABASE_URL: base64(urlAt('main')),
      'ca.crt': base64('of the Space'),
      'postgres.crt': base64('of b'),
    },
  };
  const [asked, written, events]: [string[], unknown[], Happening[]] = [[], [], []];
  const context = {
    names,
    client: { call: async () => ({ data: { principal: base64('spc_dbp_x') } }) },
    database: {
      createApp: async (capsule: string, id: string) => {
        asked.push(`${capsule}/${id}`);
        return new Secret(urlAt(host));
      },
    },
    spaceCa: async () => 'of the Space',
    databaseCa: async () => authorities,
    writer: { merge: async (...[, , patch]: readonly unknown[]) => void written.push(patch) },
    events: { record: (...[, , event]: readonly [unknown, unknown, Happening]) => void events.push(event) },
    appUsages: { forget: () => {} },
  } as unknown as Context;
  const facts = { workload, databaseSecret } as RunFacts & { readonly databaseSecret: SecretObject };
  const { output, finding } = await ensureDatabase(context, facts, new AbortController().signal);
  if (output === undefined) throw new Error(finding.message);
  const bindings = { database: output, postgresAddress: '10.96.0.7', canaryAddresses: ['10.96.0.9'] };
  return { asked, written, events, revision: deploymentObject(workload, bindings).revision };
}

describe('the database of an Assistant', () => {
  it('is requested once, and later reconciles create the same pods from the stored URL', async () => {
    const [one, two] = [await look({}), await look({})];
    expect(one).toMatchObject({ asked: [], written: [], events: [] });
    expect(two.revision).toBe(one.revision);
  });

  it('may have moved to another server when its URL is requested again: Secret and pods get the new URL', async () => {
    const [before, moved] = [await look({}), await look({ host: 'pg-b', rotate: 'moved' })];
    expect(moved.asked).toEqual(['household/ledger']);
    expect(moved.written).toEqual([
      {
        metadata: { resourceVersion: '7', annotations: { [ANNOTATION.rotated]: 'moved' } },
        data: { DATABASE_URL: base64(urlAt('pg-b')) },
      },
    ]);
    expect(moved.events).toMatchObject([{ type: 'Normal', reason: 'CredentialsRotated' }]);
    expect(moved.revision).not.toBe(before.revision);
  });

  it('is also verified with the CA of a server that was added later, wherever the database is', async () => {
    const [before, more] = [await look({}), await look({ authorities: 'of b and of c' })];
    expect(more.asked).toEqual(['household/ledger']);
    expect(more.written).toEqual([
      {
        metadata: { resourceVersion: '7' },
        data: { DATABASE_URL: base64(urlAt('main')), 'postgres.crt': base64('of b and of c') },
      },
    ]);
    expect(more.events).toEqual([]);
    expect(more.revision).not.toBe(before.revision);
  });
});
