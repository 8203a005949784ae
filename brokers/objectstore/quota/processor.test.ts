import { Counter } from 'prom-client';
import { expect, it } from 'vitest';
import { createShares } from './shares.ts';

const counter = <Label extends string>(...labelNames: Label[]) =>
  new Counter({ name: `c${labelNames.length}`, help: 'c', labelNames, registers: [] });

it('a Capsule whose documents have used its share of the processor is refused, and no other is', async () => {
  const shareRefusals = counter('resource', 'reason');
  const settings = { OBJECT_CONNECTIONS: 8, OBJECT_STREAMS: 4, OBJECT_QUEUE_SECONDS: 1 };
  const { turns } = createShares(
    { ...settings, DOCUMENT_MS_PER_SECOND: 1 },
    { shareRefusals, documentSeconds: counter(), watchSlots: () => undefined },
  );
  // Far more than it may have saved up.
  const work = () => {
    const { user, system } = process.cpuUsage();
    for (let used = 0; used < 100_000; ) {
      const now = process.cpuUsage();
      used = now.user + now.system - user - system;
    }
  };
  await turns.run('greedy', work);
  await expect(turns.run('greedy', () => 'more')).rejects.toMatchObject({ code: 'rate_limited' });
  expect(await turns.run('modest', () => 'served')).toBe('served');
  expect((await shareRefusals.get()).values).toMatchObject([{ labels: { resource: 'processor' }, value: 1 }]);
});
