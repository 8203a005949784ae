import { join } from 'node:path';
import { expect, test } from 'vitest';
import { run } from '../run.ts';
import { changes, machineTraces } from './traces.ts';

test('reports what was added and what was removed, and nothing else', () => {
  const before = new Set(['sysctl vm/overcommit_memory = 0', 'network bridge']);
  const after = new Set(['sysctl vm/overcommit_memory = 1', 'network bridge', 'container left']);
  expect(changes(before, after)).toEqual([
    'now there: sysctl vm/overcommit_memory = 1',
    'now there: container left',
    'no longer: sysctl vm/overcommit_memory = 0',
  ]);
});

test('the traces of a machine include the settings that a kubelet changes, mounts and interfaces', () => {
  const kinds = [...machineTraces()].map((trace) => trace.replace(/ = .*/, ''));
  expect(kinds).toEqual(
    expect.arrayContaining(['sysctl vm/overcommit_memory', 'sysctl kernel/panic', 'interface lo']),
  );
  expect(kinds.some((trace) => trace.startsWith('mount '))).toBe(true);
});

test('counters of the kernel are no traces', () => {
  const counted = /sysctl (kernel\/random\/|fs\/file-nr|net\/netfilter\/nf_conntrack_count)/;
  expect([...machineTraces()].filter((trace) => counted.test(trace))).toEqual([]);
});

test('another process can be asked for the traces of its own namespaces', async () => {
  const said = await run([process.execPath, join(import.meta.dirname, 'here.ts')]);
  const own = (traces: Iterable<string>) =>
    [...traces].filter((trace) => /^(interface|sysctl kernel\/panic)/.test(trace));
  expect(own(JSON.parse(said) as string[])).toEqual(own(machineTraces()));
});
