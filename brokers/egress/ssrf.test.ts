import { execFile, execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import { PAYLOADS } from './testing/ssrf.ts';
import type { Attempt, SsrfReport } from './testing/ssrf-run.ts';

const OWN_NETWORK = ['--map-root-user', '--net'];

function mayHaveOwnNetwork(): boolean {
  try {
    execFileSync('unshare', [...OWN_NETWORK, 'ip', 'link', 'set', 'lo', 'up'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/**
 * Counted by the kernel: in a network namespace where every address there is leads to one listener, the connections that
 * were begun, and where they arrived.
 */
describe.skipIf(!mayHaveOwnNetwork())(
  'what an Assistant asks to be connected to (needs ip and a kernel that lets us make a network namespace)',
  () => {
    let report: SsrfReport;
    const brief = ({ kind, host, codes, opened, denied }: Attempt) => ({ kind, host, codes, opened, denied });

    beforeAll(async () => {
      const program = join(import.meta.dirname, 'testing/ssrf-run.ts');
      const argv = [...OWN_NETWORK, process.execPath, program];
      const { stdout } = await promisify(execFile)('unshare', argv, { maxBuffer: 64 * 1024 * 1024 });
      report = JSON.parse(stdout);
    });

    it.each(['literal', 'answer', 'mixed', 'chain', 'rebinding', 'redirect'] as const)(
      'is never opened to a denied address: %s',
      (kind) => {
        const attempts = report.guarded.filter((attempt) => attempt.kind === kind);
        expect(attempts).toHaveLength(PAYLOADS.filter((payload) => payload.kind === kind).length);
        expect(attempts.length).toBeGreaterThanOrEqual(75);
        const astray = attempts.filter(
          ({ opened, denied, ...one }) => denied.length > 0 || opened !== one.public,
        );
        expect(astray.map(brief)).toEqual([]);
      },
    );

    it('is refused with a stable code, or leads to the real address of the name at that moment', () => {
      const codes = (kind: Attempt['kind']) =>
        [...new Set(report.guarded.flatMap((one) => (one.kind === kind ? one.codes : [])))].toSorted();
      expect(codes('literal')).toEqual(['host_denied', 'invalid_request', 'name_unresolved']);
      for (const kind of ['answer', 'mixed', 'chain'] as const)
        expect(codes(kind)).toEqual(['address_denied']);
      expect(codes('rebinding')).toEqual(['200', 'address_denied']);
      // Redirects are the Assistant's to follow, if it can.
      expect(codes('redirect')).toEqual(['301', '302', '303', '307', '308']);
    });

    it('would be detected: with a guard that permits everything, the same names lead to denied addresses', () => {
      const arrived = report.open.filter(({ denied }) => denied.length > 0);
      expect(arrived.length).toBeGreaterThanOrEqual(300);
      const kinds = new Set(arrived.map(({ kind }) => kind));
      expect([...kinds].toSorted()).toEqual(['answer', 'chain', 'mixed', 'rebinding']);
    });
  },
);
