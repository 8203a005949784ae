import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { Cell } from './matrix.ts';
import { failures, isAsSigned, type Report, signReport, textOf } from './report.ts';

const cell = (from: string, to: Cell['to'], more: Partial<Cell> = {}): Cell => ({
  from,
  party: 'assistant',
  target: `${to} tcp 1`,
  to,
  expected: 'closed',
  seen: 'silence',
  agrees: true,
  witnessed: false,
  ...more,
});
const report = (more: Partial<Report> = {}): Report => ({
  space: 'home',
  started: '2026-11-23T08:00:00.000Z',
  seconds: 42,
  versions: { Kubernetes: 'v1.36.0' },
  images: {},
  cells: [
    cell('one', 'postgres', { expected: 'open', seen: 'connected' }),
    cell('one', 's3', { witnessed: true }),
    cell('one', 'canary', { seen: 'unable' }),
    cell('stranger', 's3', { expected: 'theirs', seen: 'connected' }),
  ],
  checks: [{ name: 'sandbox', holds: true, found: 'gVisor' }],
  unanswered: [],
  notes: ['what is outside the cluster'],
  ...more,
});

describe('the report', () => {
  it('is a table of pods and their targets, with what was not tested', () => {
    expect(textOf(report()).split('\n')).toEqual([
      'from      postgres  s3  canary',
      'one       o         .   ?',
      'stranger            -',
      expect.stringContaining('not as expected'),
      '',
      'ok      sandbox: gVisor',
      '',
      'not tested: what is outside the cluster',
      '2 cells measured, 2 as expected; another pod reached the target of 1 of the 1 closed ones',
      '1 more could not be tested, because the runtime offers no socket for the protocol',
      'every connection and every check is as expected (42 s)',
    ]);
  });

  it('names each cell and each check that is not as it should be', () => {
    const bad = report({
      cells: [cell('one', 's3', { seen: 'connected', agrees: false })],
      checks: [{ name: 'admission', holds: false, found: 'a pod was admitted' }],
    });
    expect(failures(bad)).toEqual([
      'one -> s3 tcp 1: expected closed, observed connected',
      'admission: a pod was admitted',
    ]);
    expect(textOf(bad)).toContain('one   !');
    expect(textOf(bad)).not.toContain('as expected (');
  });

  it('fails when pods that were asked did not answer, even if all others agree', () => {
    const silent = report({
      cells: [
        ...report().cells,
        cell('two', 's3', { seen: 'unasked', agrees: false }),
        cell('two', 'canary', { seen: 'unasked', agrees: false }),
      ],
      unanswered: ['two: container not found'],
    });
    expect(failures(silent)).toEqual([
      'no answer from two: container not found',
      'two: gave no result for 2 targets',
    ]);
    expect(textOf(silent)).not.toContain('as expected (');
  });

  it.each([
    ['in which no pod answered', [cell('one', 's3', { expected: 'theirs', seen: 'unasked' })]],
    ['without a cell', []],
  ])('fails %s: that is no measurement', (_, cells) => {
    expect(failures(report({ cells }))).toEqual(['nothing was measured']);
  });

  it('is signed with a key of its own, which shows that nothing was changed since', () => {
    const signed = signReport(report());
    expect(signed.signature.ephemeral).toBe(true);
    const read = JSON.parse(JSON.stringify(signed, null, 2));
    expect(isAsSigned(read)).toBe(true);
    expect(isAsSigned({ ...read, report: { ...read.report, seconds: 1 } })).toBe(false);
  });

  it('is signed with the key of a person, which shows who signed it', () => {
    const [mine, other] = [generateKeyPairSync('ed25519'), generateKeyPairSync('ed25519')];
    const signed = signReport(report(), mine.privateKey);
    expect(signed.signature.ephemeral).toBe(false);
    expect(isAsSigned(signed, createPublicKey(mine.privateKey))).toBe(true);
    expect(isAsSigned(signed, other.publicKey)).toBe(false);
    const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
    expect(() => signReport(report(), rsa)).toThrow('Ed25519');
  });
});
