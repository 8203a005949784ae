import { describe, expect, it } from 'vitest';
import { programsIn } from './checks.ts';

const BUSY =
  'error: Internal error occurred: failed to exec in container: failed to load task: context deadline exceeded';
const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'prober-1', namespace: 'home-a' } };
const capsule = { name: 'a', namespace: 'home-a', pod };

/** A cluster that gives these answers, one after the other. */
function answering(...answers: readonly { readonly stdout?: string; readonly stderr?: string }[]) {
  const asked: string[][] = [];
  const run = async (argv: readonly string[]) => {
    const { stdout = '', stderr = '' } = answers[asked.push([...argv]) - 1] ?? {};
    return { code: stdout === '' ? 1 : 0, stdout, stderr };
  };
  return { asked, within: programsIn({ run } as never) };
}

describe('a program in an Assistant', () => {
  it('is started again if the kubelet could not start it in time', async () => {
    const { asked, within } = answering({ stderr: BUSY }, { stderr: BUSY }, { stdout: 'gVisor\n' });
    expect(await within(capsule, ['uname'])).toBe('gVisor');
    expect(asked).toHaveLength(3);
  });

  it('has given no answer if it could not be started three times', async () => {
    const { asked, within } = answering(
      { stderr: BUSY },
      { stderr: BUSY },
      { stderr: BUSY },
      { stdout: 'late' },
    );
    expect(await within(capsule, ['uname'])).toBe(`no answer: ${BUSY}`);
    expect(asked).toHaveLength(3);
  });

  it('is not started again when it ran and failed', async () => {
    const { asked, within } = answering(
      { stderr: 'command terminated with exit code 1' },
      { stdout: 'again' },
    );
    expect(await within(capsule, ['false'])).toBe('no answer: command terminated with exit code 1');
    expect(asked).toHaveLength(1);
  });
});
