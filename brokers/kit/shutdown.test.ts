import { expect, it } from 'vitest';
import { createLogger } from './log.ts';
import { shutDown } from './shutdown.ts';

const log = createLogger({ service: 'test', level: 'silent' });

it('runs the phases in order, and the next also when one hangs or fails', async () => {
  const ran: string[] = [];
  const phase = (name: string, run: () => Promise<void>, timeoutMs = 1_000) => ({
    name,
    timeoutMs,
    run: () => {
      ran.push(name);
      return run();
    },
  });
  const clean = await shutDown(
    [
      phase('good', async () => undefined),
      phase('failing', () => Promise.reject(new Error('no'))),
      phase('hanging', () => new Promise(() => undefined), 10),
      phase('last', async () => undefined),
    ],
    log,
  );
  expect(ran).toEqual(['good', 'failing', 'hanging', 'last']);
  expect(clean).toBe(false);
  expect(await shutDown([phase('good', async () => undefined)], log)).toBe(true);
});
