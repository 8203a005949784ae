import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createSteps } from './index.ts';
import { elapsed } from './render.ts';

function recorded(terminal = false) {
  let time = 0;
  let text = '';
  const output = {
    isTTY: terminal,
    columns: 60,
    write: (part: string) => {
      text += part;
    },
  };
  const steps = createSteps({ output, now: () => time });
  return { steps, pass: (ms: number) => (time += ms), text: () => text };
}

describe('without a terminal', () => {
  test('a step is a line when it starts and one with its time when it ends', async () => {
    const { steps, pass, text } = recorded();
    await steps.run('build', async () => pass(1500));
    expect(text()).toBe('build …\n✓ build 1.5 s\n');
  });

  test('steps inside a step are indented, and keep their results', async () => {
    const { steps, pass, text } = recorded();
    await steps.run('cluster', (step) =>
      step.run('node', async (inner) => {
        pass(200);
        inner.note('already there');
      }),
    );
    expect(text()).toBe('cluster …\n  node …\n  ✓ node 0.2 s · already there\n✓ cluster 0.2 s\n');
  });

  test('a failing step shows the whole cause and the end of its log, once', async () => {
    const { steps, text } = recorded();
    const directory = mkdtempSync(join(tmpdir(), 'steps-'));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const log = join(directory, 'build.log');
    writeFileSync(log, Array.from({ length: 30 }, (_, line) => `line ${line + 1}`).join('\n'));
    const failure = new Error('go build: exit 1', { cause: new Error('disk full') });
    const run = steps.run('cluster', (step) =>
      step.run('build', async (inner) => {
        inner.explain(log);
        throw failure;
      }),
    );
    await expect(run).rejects.toBe(failure);
    const lines = text().split('\n');
    expect(lines).toContain('    go build: exit 1');
    expect(lines).toContain('    because: disk full');
    expect(lines).toContain(`    the end of ${log}:`);
    expect(lines).toContain('      line 30');
    expect(lines).not.toContain('      line 10');
    expect(lines.filter((line) => line.includes('go build'))).toHaveLength(1);
    expect(lines.at(-2)).toBe('✗ cluster 0.0 s');
  });

  test('a log that does not exist yet does not hide the cause', async () => {
    const { steps, text } = recorded();
    const run = steps.run('build', async (step) => {
      step.explain('/nowhere/build.log');
      throw new Error('no go');
    });
    await expect(run).rejects.toThrow('no go');
    expect(text()).toContain('  no go\n');
  });
});

test('the summary lists steps as a tree, although they ran at the same time', async () => {
  const { steps, pass } = recorded();
  const slow = Promise.withResolvers<void>();
  const first = steps.run('first', (step) => step.run('first inside', () => slow.promise));
  await steps.run('second', async () => pass(10));
  slow.resolve();
  await first;
  expect(steps.summary().map(({ title, depth, outcome }) => ({ title, depth, outcome }))).toEqual([
    { title: 'first', depth: 0, outcome: 'done' },
    { title: 'first inside', depth: 1, outcome: 'done' },
    { title: 'second', depth: 0, outcome: 'done' },
  ]);
});

test('on a terminal, running steps are redrawn and ended ones stay', async () => {
  const { steps, pass, text } = recorded(true);
  await steps.run('cluster', async (step) => {
    await step.run('node', async () => pass(100));
  });
  steps.close();
  const screen = text().split('\u001b[J').at(-1) ?? '';
  expect(screen).toBe('✓ cluster 0.1 s\n  ✓ node 0.1 s\n');
});

test('no line on a terminal is longer than it is wide', async () => {
  const { steps, text } = recorded(true);
  await steps.run('x'.repeat(200), async () => undefined);
  steps.close();
  for (const line of text().split('\n')) expect(line.length).toBeLessThan(70);
});

test('minutes are shown as minutes', () => {
  expect(elapsed(400)).toBe('0.4 s');
  expect(elapsed(185_400)).toBe('3 min 05 s');
  expect(elapsed(119_700)).toBe('2 min 00 s');
});
