import { Secret } from '@space/contracts/secret';
import { type Definition, definitionDigest } from '@space/manifests';
import { describe, expect, it } from 'vitest';
import { no } from '../../conditions.ts';
import type { StoredInput } from './entered.ts';
import { Fingerprints } from './fingerprint.ts';
import { compareInputs, type EnteredInputs, judgeInputs, verdictOf } from './judge.ts';
import type { SealedInput } from './sealed.ts';

const fingerprints = new Fingerprints();
const definition: Definition = {
  host: 'api.bank.org',
  routes: [{ method: 'GET', path: '/accounts' }],
  header: 'Authorization',
};
const another: Definition = { ...definition, host: 'api.other.org' };
const VALUE = 'S3cret-of-the-bank';

const stored = (changes: Partial<StoredInput> = {}): StoredInput => ({
  ...{ secret: 'bank', at: 'value', uid: 'u', resourceVersion: '2', entry: undefined },
  value: new Secret(VALUE),
  ...changes,
});
const sealedFor = (wanted: Definition, changes: Partial<SealedInput> = {}): SealedInput => ({
  ...{ envelope: 'e', definition: definitionDigest(wanted), source: 'u/1' },
  ...changes,
});
const known = (
  values: Record<string, StoredInput>,
  inputs: Record<string, SealedInput> = {},
  problems: EnteredInputs['entered']['problems'] = new Map(),
): EnteredInputs => ({
  entered: { values: new Map(Object.entries(values)), problems },
  sealed: { secret: undefined, inputs },
});

/** Whether a value in a Secret that was written since is compared, and found to be another than the sealed one. */
async function changed(value: StoredInput, old: SealedInput | undefined, wanted = definition) {
  const compared = await compareInputs({ fingerprints }, known({ bank: value }, old && { bank: old }), {
    bank: wanted,
  });
  expect(compared.sealed.inputs).toEqual(old ? { bank: old } : {});
  return compared.entered.values.get('bank')?.changed;
}

describe('where it was forgotten what some values were entered for', () => {
  const verdict = (values: Record<string, StoredInput>, inputs: Record<string, SealedInput> = {}) => {
    const { entered, sealed } = known(values, inputs);
    return verdictOf({ entered, sealed: { ...sealed, forgets: true } }, 'bank', definition);
  };

  it('one that its Secret does not say it of is entered again', () => {
    expect(verdict({ bank: stored() })).toBe('reentry');
    expect(verdict({ bank: stored({ entry: `${definitionDigest(definition)} 1` }) })).toBe('seal');
  });

  it('one that is sealed stays, and one that nobody entered is missing', () => {
    expect(verdict({ bank: stored({ resourceVersion: '1' }) }, { bank: sealedFor(definition) })).toBe(
      'bound',
    );
    expect(verdict({})).toBe('missing');
  });
});

describe('a value in a Secret that was written after it was sealed for another definition', () => {
  it('is another if its fingerprint is, and only then counts as entered', async () => {
    const fingerprint = await fingerprints.of(new Secret(VALUE));
    const old = sealedFor(another, { fingerprint });
    expect(await changed(stored(), old)).toBe(false);
    const other = stored({ resourceVersion: '3', value: new Secret('another-S3cret') });
    expect(await changed(other, old)).toBe(true);

    const compared = await compareInputs({ fingerprints }, known({ bank: other }, { bank: old }), {
      bank: definition,
    });
    expect(verdictOf(compared, 'bank', definition)).toBe('seal');
    expect(verdictOf(known({ bank: other }, { bank: old }), 'bank', definition)).toBe('reentry');
  });

  it('is the sealed one in the very Secret that was sealed, whatever the fingerprint is', async () => {
    const fingerprint = await fingerprints.of(new Secret('another-S3cret'));
    expect(await changed(stored(), sealedFor(another, { source: 'u/2', fingerprint }))).toBe(false);
  });

  it('is another without a fingerprint if the Secret was created since', async () => {
    expect(await changed(stored(), sealedFor(another))).toBe(false);
    expect(await changed(stored({ uid: 'v' }), sealedFor(another))).toBe(true);
  });

  it('is compared once for each version of its Secret and each key in it', async () => {
    const other = new Secret('another-S3cret');
    const old = sealedFor(another, { fingerprint: await fingerprints.of(new Secret(VALUE)) });
    const seventh = { resourceVersion: '7', value: other };
    expect(await changed(stored({ resourceVersion: '7' }), old)).toBe(false);
    // No Secret has another value in the same version, so this shows that it is not compared.
    expect(await changed(stored(seventh), old)).toBe(false);
    expect(await changed(stored({ ...seventh, resourceVersion: '8' }), old)).toBe(true);
    expect(await changed(stored({ ...seventh, at: 'next' }), old)).toBe(true);
    expect(await changed(stored({ ...seventh, uid: 'v' }), old)).toBe(true);
    const anew = sealedFor(another, { fingerprint: await fingerprints.of(other) });
    expect(await changed(stored({ resourceVersion: '7' }), anew)).toBe(true);
  });

  it('is not compared if that decides nothing', async () => {
    expect(await changed(stored(), sealedFor(definition))).toBeUndefined();
    expect(await changed(stored(), undefined)).toBeUndefined();
    const { entered } = await compareInputs({ fingerprints }, known({}, { bank: sealedFor(another) }), {
      bank: definition,
    });
    expect(entered.values).toEqual(new Map());
  });
});

describe('the condition', () => {
  const judged = (inputs: EnteredInputs, definitions: Record<string, Definition> = { bank: definition }) =>
    judgeInputs(inputs, definitions);

  it('is Ready if every input is sealed, or about to be', () => {
    expect(judged(known({}, { bank: sealedFor(definition) }))).toMatchObject({
      status: 'True',
      reason: 'Ready',
    });
    expect(judged(known({ bank: stored() })).status).toBe('True');
  });

  it('names inputs that nobody has entered, or says why one cannot be read', () => {
    const two = { bank: definition, mail: another };
    expect(judged(known({}), two)).toEqual(
      no('InputsMissing', 'Nobody has entered a value for: bank, mail.'),
    );
    const problem = no('InputsMissing', 'The Secret "bank" is of another type.');
    expect(judged(known({}, {}, new Map([['bank', problem]])), two)).toBe(problem);
  });

  it('names an input whose value no request can carry, without the value', () => {
    const { reason, message } = judged(known({ bank: stored({ value: new Secret('ab') }) }));
    expect(reason).toBe('InputInvalid');
    expect(message).toMatch(/^The value of the stored input "bank" .+\.$/);
    expect(message).not.toContain('ab.');
  });

  it('names a value that cannot be used also if an earlier one is sealed, but not a Secret that is gone or empty', () => {
    const finding = no('InputInvalid', 'Key "value" of Secret "bank" is not a valid value.');
    const ofProblem = (isEntered: boolean) =>
      judged(known({}, { bank: sealedFor(definition) }, new Map([['bank', { ...finding, isEntered }]])));
    expect(ofProblem(true)).toEqual(finding);
    expect(ofProblem(false).status).toBe('True');
  });

  it('names an input that has to be entered again, and with which annotation', () => {
    const { reason, message } = judged(known({}, { bank: sealedFor(another) }));
    expect(reason).toBe('InputNeedsReentry');
    expect(message).toContain(`=${definitionDigest(definition)} for bank`);
    // The same annotation again would be no write, and nobody could tell it from none.
    expect(message).toContain('if it is so already, with a space and another word after that');
  });

  it('names an input that its host returned, before one that has to be entered again', () => {
    const inputs = known(
      {},
      { mail: sealedFor(definition), bank: sealedFor(definition, { reflected: true }) },
    );
    const { reason, message } = judged(inputs, { mail: another, bank: definition });
    expect(reason).toBe('InputReflected');
    expect(message).toMatch(/^The host of bank returned/);
    expect(message).toContain(`=${definitionDigest(definition)} for bank`);
  });
});
