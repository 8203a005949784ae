import { relative } from 'node:path';
import { type Cluster, DEFAULT_CLUSTER } from '../cluster/index.ts';
import type { StepSummary } from '../progress/index.ts';
import type { Demo, Line } from './example.ts';
import type { Release } from './release.ts';
import { ADMINISTRATOR } from './release.ts';

type UpTarget = Pick<Cluster, 'name' | 'provider' | 'kubeconfig'> &
  Release & { readonly severalNodes: boolean };

const WIDTH = 11;
const row = (name: string, text: string) => `  ${name.padEnd(WIDTH)} ${text}`;
/** The path relative to the current directory, unless it is outside of that. */
const shortest = (path: string) =>
  [relative(process.cwd(), path), path].filter((one) => !one.startsWith('..'))[0];
const money = ({ account, currency, amount }: Line) => `${account} ${amount} ${currency}`;

/** What came up, what the example answered, how long each part took, and what to try next. */
export function closingText(
  place: UpTarget,
  demo: Demo | undefined,
  summary: readonly StepSummary[],
): string {
  const parts = [cameUp(place, demo), ...(demo === undefined ? [] : [told(demo)]), took(summary)];
  return [...parts, next(place, demo)].map((lines) => `\n${lines.join('\n')}`).join('\n');
}

function cameUp({ name, provider, kubeconfig, space }: UpTarget, demo: Demo | undefined) {
  return [
    'What came up',
    row('cluster', `${name} (${provider}), ${shortest(kubeconfig)}`),
    row('Space', `${space}: operator and console in ${space}-system, all else in ${space}-services`),
    ...(demo === undefined
      ? []
      : [
          row('Capsule', `household, in namespace ${demo.namespace}`),
          row('Assistant', 'ledger, Ready, with a database of its own'),
        ]),
  ];
}

function told({ entry, balances, kernel }: Demo): string[] {
  const lines = balances.map(({ balance, ...rest }) => money({ ...rest, amount: balance }));
  return [
    'What the Assistant ledger answers through its Service',
    row('posted', `${entry.description}: ${entry.lines.map(money).join(', ')}`),
    row('balances', lines.join(', ')),
    row('its kernel', kernel),
  ];
}

function took(summary: readonly StepSummary[]): string[] {
  const rows = summary.filter(({ depth }) => depth === 0);
  const width = Math.max(WIDTH, ...rows.map(({ title }) => title.length));
  return [
    'How long it took',
    ...rows.map(({ title, seconds, note }) => {
      const remark = note === '' ? '' : `  ${note}`;
      return `  ${title.padEnd(width)} ${seconds.toFixed(1).padStart(6)} s${remark}`;
    }),
  ];
}

function next({ name, space, namespace, severalNodes }: UpTarget, demo: Demo | undefined): string[] {
  const kubectl = `npm run -s kubectl --${name === DEFAULT_CLUSTER ? '' : ` --cluster ${name}`}`;
  const down = `npm run down${name === DEFAULT_CLUSTER ? '' : ` -- --cluster ${name}`}`;
  const lines = ['What to try next', `  ${kubectl} -n ${namespace} get capsules,assistants`];
  if (demo !== undefined) {
    const service = `/api/v1/namespaces/${demo.namespace}/services/ledger:8080/proxy`;
    lines.push(
      `  ${kubectl} -n ${namespace} describe assistant ledger`,
      ...(severalNodes ? [] : ['/', '/trial-balance']).map(
        (path) => `  ${kubectl} get --raw ${service}${path}`,
      ),
      `  ${kubectl} -n ${demo.namespace} exec deploy/ledger -- cat /proc/version`,
    );
  }
  const account = demo === undefined ? 'NAME' : ADMINISTRATOR;
  return [
    ...lines,
    `  ${down}`,
    '',
    'The console is at https://localhost:8443 while the first command runs; the second prints a token to sign in with',
    `  ${kubectl} -n ${space}-system port-forward service/console 8443`,
    `  ${kubectl} -n ${namespace} create token ${account}`,
  ];
}
