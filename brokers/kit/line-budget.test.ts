import { beforeEach, expect, it } from 'vitest';
import { eventually } from '../../testing/eventually.ts';
import { LineBudget } from './line-budget.ts';
import { createLogger } from './log.ts';

let lines: Record<string, unknown>[];
let now: number;
let budget: LineBudget;
beforeEach(() => {
  // A budget of the test before may still tell of what it left out.
  const own: typeof lines = [];
  lines = own;
  now = 0;
  const destination = { write: (line: string) => void own.push(JSON.parse(line)) };
  const log = createLogger({ service: 'test', level: 'info', destination });
  budget = new LineBudget(log, { burst: 3, perSecond: 2, tellMs: 1, now: () => now });
});

const allowed = (times: number, who: object, event = 'request', level: 'info' | 'error' = 'info') =>
  Array.from({ length: times }, () => budget.allows(level, { ...who }, event)).filter(Boolean).length;

it('a tenant has so many lines at once and so many a second, of each kind, whatever others do', () => {
  const [a, b] = [{ capsule: 'a' }, { capsule: 'b' }];
  expect(allowed(100, a)).toBe(3);
  expect(allowed(2, b)).toBe(2);
  expect(allowed(100, a, 'other')).toBe(3);
  // The cause of a failure is not hidden by successes.
  expect(allowed(100, a, 'request', 'error')).toBe(3);
  now += 1_000;
  expect(allowed(100, a)).toBe(2);
  now += 60_000;
  expect(allowed(100, a)).toBe(3);
});

it('how many lines were left out is told once, of each tenant and kind', async () => {
  allowed(10, { capsule: 'a', app: 'ledger' });
  allowed(5, { capsule: 'b' }, 'session ended', 'error');
  allowed(3, { capsule: 'c' });
  await eventually(() => lines.length >= 2, { what: 'the numbers' });
  const msg = 'lines left out';
  expect(lines).toMatchObject([
    { level: 'info', capsule: 'a', app: 'ledger', event: 'request', left_out: 7, msg },
    { level: 'error', capsule: 'b', event: 'session ended', left_out: 2, msg },
  ]);
  allowed(1, { capsule: 'b' }, 'session ended', 'error');
  await eventually(() => lines.length >= 3, { what: 'the next number' });
  expect(lines[2]).toMatchObject({ capsule: 'b', left_out: 1 });
});
