import type { StepSummary } from '../progress/index.ts';
import type { Story } from './example.ts';

/** How long each part took: the outermost steps, and what came of them. */
export function closingTable(summary: readonly StepSummary[]): string {
  const rows = summary.filter((step) => step.depth === 0);
  const width = Math.max(...rows.map((row) => row.title.length));
  const lines = rows.map(({ title, seconds, note }) => {
    const remark = note === '' ? '' : `  ${note}`;
    return `  ${title.padEnd(width)}  ${seconds.toFixed(1).padStart(6)} s${remark}`;
  });
  return ['', 'What came up, and how long it took', ...lines].join('\n');
}

export function nextSteps(namespace: string, story: Story | undefined): string {
  const lines: string[] = [];
  if (story !== undefined) {
    lines.push(
      '',
      'The Assistant ledger, through its Service',
      `  posted    ${JSON.stringify(story.entry)}`,
      `  balances  ${JSON.stringify(story.balances)}`,
      `  kernel    ${story.kernel}`,
    );
  }
  lines.push(
    '',
    'What to try next',
    `  npm run kubectl -- -n ${namespace} get capsules,assistants`,
    `  npm run kubectl -- -n ${namespace} describe assistant ledger`,
  );
  if (story !== undefined) {
    const service = `/api/v1/namespaces/${story.namespace}/services/ledger:8080/proxy`;
    lines.push(`  npm run kubectl -- get --raw ${service}/balances`);
  }
  lines.push(
    '  npm run kubectl -- delete runtimeclass gvisor     # and watch the gate close',
    '  npm run down',
  );
  return lines.join('\n');
}
