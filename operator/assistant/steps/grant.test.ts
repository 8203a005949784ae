/** What becomes of an Assistant when the key that signs grants cannot be used. */
import { Secret } from '@space/contracts/secret';
import { describe, expect, it } from 'vitest';
import { newIssuer } from '../../../brokers/objectstore/byok/grants/testing/issuer.ts';
import type { Context } from '../../context.ts';
import { grantKeyFile } from '../../grants/sign.ts';
import type { SecretObject } from '../../kinds.ts';
import { names } from '../../testing/names.ts';
import { ensureGrant } from './grant.ts';

const base64 = (text: string) => Buffer.from(text).toString('base64');
const pem = newIssuer().privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
const [, material = ''] = pem.split('\n');
const FILE = '/etc/space/objectstore-grants/key';
const SELECTION = { setId: `ocs_${'s'.repeat(22)}`, generation: 2 };

/** One look at an Assistant, with what its file has: text, or nothing at all. */
async function look(text: string | undefined, selection: typeof SELECTION | undefined, before?: string) {
  const secret: SecretObject = {
    metadata: { name: 'ledger-objectstore', resourceVersion: '7' },
    data: { token: base64(`spc_osw_${'t'.repeat(43)}`), ...(before && { grant: base64(before) }) },
  };
  const [written, read]: [unknown[], string[]] = [[], []];
  const context = {
    names,
    selections: { get: async () => selection, forget: () => {} },
    writer: {
      merge: async (...[, object, patch]: readonly unknown[]) => {
        written.push(patch);
        return object;
      },
    },
    now: () => '2026-11-21T12:00:00Z',
  } as unknown as Context;
  const readKey = grantKeyFile(FILE, async (file) => {
    read.push(file);
    if (text === undefined) throw new Error(`ENOENT: no such file, open '${file}'`);
    return text;
  });
  const about = { capsule: 'household', app: 'ledger', principal: new Secret('spc_osp_x'), secret, pods: [] };
  const signal = new AbortController().signal;
  const outcome = await ensureGrant(context, { broker: {} as never, readKey }, about, signal);
  return { outcome, written, read };
}

describe('a key that signs grants', () => {
  it.each([
    ['cannot be read', undefined, `cannot be read from ${FILE}`],
    ['is empty', '', 'is not a private key in PEM'],
    ['is cut off', pem.slice(0, -40), 'is not a private key in PEM'],
    ['lost a line', pem.replace(material, ''), 'is not a private key in PEM'],
  ])('that %s is reported in a condition, which says where it is and what to do', async (_, text, says) => {
    const { outcome, written } = await look(text, SELECTION, 'before');
    const { finding, retry } = outcome.failure ?? {};
    expect(outcome.granted).toBe(false);
    expect(finding).toMatchObject({ status: 'False', reason: 'GrantKeyUnusable' });
    expect(finding?.message).toContain(says);
    expect(finding?.message).toContain(
      `"key" of Secret "objectstore-grants" in namespace "${names.systemNamespace}"`,
    );
    expect(finding?.message).toContain('docs/rotation.md');
    // It is tried again, and the grant that there is stays until it ends.
    expect(retry).toBeInstanceOf(Error);
    expect(written).toEqual([]);
    const whole = JSON.stringify([outcome, (retry as Error).message, (retry as Error).stack]);
    expect(whole).not.toContain(material.slice(0, 12));
  });

  it('is not read for an Assistant whose Capsule has selected nothing', async () => {
    expect(await look(undefined, undefined)).toEqual({ outcome: { granted: false }, written: [], read: [] });
  });

  it('is read at each use, so that a mended one signs without a restart', async () => {
    const { outcome, written, read } = await look(pem, SELECTION);
    expect(outcome).toEqual({ granted: true });
    expect(read).toEqual([FILE]);
    expect(written).toMatchObject([
      { metadata: { resourceVersion: '7' }, data: { grant: expect.stringMatching(/^\w{40}/) } },
    ]);
  });
});
