import { describe, expect, it, vi } from 'vitest';
import { askAll } from './ask.ts';
import { startPulse } from './pulse.ts';

const never = new Promise<{ yes: boolean }>(() => undefined);
const says = async (yes: boolean) => ({ yes });
const fails = async (): Promise<{ yes: boolean }> => {
  throw new Error('away');
};
const enough = ({ yes }: { yes: boolean }) => yes;

describe('a request to several servers', () => {
  it('returns the answer of each, and none of one that fails', async () => {
    expect(await askAll([says(false), fails(), says(true)], enough)).toEqual([
      { yes: false },
      undefined,
      { yes: true },
    ]);
  });

  it('waits a moment for one that hangs once another answer is sufficient', async () => {
    const begun = performance.now();
    expect(await askAll([never, says(true)], enough, { graceMs: 20, patienceMs: 60_000 })).toEqual([
      undefined,
      { yes: true },
    ]);
    expect(performance.now() - begun).toBeLessThan(30_000);
  });

  it('waits at most its time limit if no answer is sufficient', async () => {
    expect(await askAll([never, says(false)], enough, { patienceMs: 20 })).toEqual([
      undefined,
      { yes: false },
    ]);
  });

  it('ignores a late answer', async () => {
    const { promise, resolve } = Promise.withResolvers<{ yes: boolean }>();
    const answers = await askAll([promise], enough, { patienceMs: 10 });
    resolve({ yes: true });
    await promise;
    expect(answers).toEqual([undefined]);
  });
});

describe('the pulse of a server', () => {
  it('is lost after two requests without an answer, and back with the next answer', async () => {
    let answer = fails;
    const pulse = startPulse(() => answer(), { intervalMs: 1_000_000 });
    try {
      expect(pulse.answers()).toBe(true);
      expect(await pulse.ask()).toBe(true);
      expect(await pulse.ask()).toBe(false);
      answer = () => says(true);
      expect(pulse.answers()).toBe(false);
      expect(await pulse.ask()).toBe(true);
      expect(pulse.answers()).toBe(true);
    } finally {
      pulse.stop();
    }
  });

  it('treats a server that hangs as one that does not answer, and sends it one request at a time', async () => {
    const question = vi.fn(() => never);
    const pulse = startPulse(question, { intervalMs: 1_000_000, timeoutMs: 10 });
    try {
      await Promise.all([pulse.ask(), pulse.ask()]);
      expect(question).toHaveBeenCalledTimes(1);
      expect(await pulse.ask()).toBe(false);
    } finally {
      pulse.stop();
    }
  });
});
