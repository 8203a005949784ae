/** The chart's alert rules and dashboard, checked by promtool and compared with the existing metrics. */

import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseAllDocuments, stringify } from 'yaml';
import { countRefusedKeys, createBrokerMetrics } from '../../brokers/db/metrics.ts';
import { createEgressMetrics } from '../../brokers/egress/metrics.ts';
import { countTlsExpiry, createMetrics, Secret } from '../../brokers/kit/index.ts';
import { createBrokerMetrics as createObjectStoreMetrics } from '../../brokers/objectstore/metrics.ts';
import { operatorMetrics } from '../../operator/metrics.ts';
import { runtimeMetrics } from '../../operator/runtime/metrics.ts';
import { findTool } from '../cluster/tools.ts';
import { CHART, SOME_IMAGES } from './chart.ts';
import { finish } from './kube.ts';
import type { KubeObject } from './kube-object.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const ALL = ['podMonitor', 'rules', 'dashboard'].flatMap((key) => ['--set', `monitoring.${key}=true`]);

let directory: string;
let objects: readonly KubeObject[];
let rules: string;

interface Dashboard {
  readonly uid: string;
  readonly title: string;
  readonly panels: readonly { readonly targets: readonly { readonly expr: string }[] }[];
}
let dashboard: Dashboard;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'space-monitoring-'));
  objects = await render();
  rules = await writeRules('rules.yaml', objects);
  dashboard = dashboardIn(objects).dashboard;
}, 600_000);

afterAll(() => rm(directory, { recursive: true, force: true }));

const render = (...set: readonly string[]) => renderOf('home', 'home', ...set);

async function renderOf(
  release: string,
  namespace: string,
  ...set: readonly string[]
): Promise<readonly KubeObject[]> {
  const helm = await findTool('helm', directory);
  const args = ['template', release, CHART, '--namespace', namespace, ...SOME_IMAGES, ...ALL, ...set];
  const { stdout, stderr } = await finish(helm, args);
  if (stdout === '') throw new Error(stderr);
  return parseAllDocuments(stdout).flatMap((document) => document.toJS() ?? []);
}

/** The one file of the ConfigMap that Grafana's sidecar loads. */
function dashboardIn(rendered: readonly KubeObject[]) {
  const shown = rendered.find(({ metadata }) => metadata.labels?.['grafana_dashboard'] === '1');
  const [[file, text] = ['', ''], ...more] = Object.entries<string>(shown?.['data'] ?? {});
  expect(more).toEqual([]);
  return { file, text, dashboard: JSON.parse(text) as Dashboard };
}

async function writeRules(name: string, rendered: readonly KubeObject[]): Promise<string> {
  const { groups } = rendered.find(({ kind }) => kind === 'PrometheusRule')?.['spec'] ?? {};
  const file = join(directory, name);
  await writeFile(file, stringify({ groups }));
  return file;
}

/** The errors that promtool reports; empty if there are none. The first call compiles it. */
async function promtool(...args: readonly string[]): Promise<string> {
  // Most of Prometheus is service discovery, which no rule needs; `go tool` accepts no tags, so this uses `go run`.
  const run = ['run', '-tags', 'remove_all_sd', 'github.com/prometheus/prometheus/cmd/promtool'];
  return promisify(execFile)('go', ['-C', join(ROOT, 'scripts/promtool'), ...run, ...args]).then(
    () => '',
    (error: { stdout: string; stderr: string }) => error.stdout + error.stderr,
  );
}

const expressions = () =>
  dashboard.panels
    .flatMap(({ targets }) => targets.map(({ expr }) => expr))
    .map((expr) => expr.replaceAll('$__rate_interval', '5m').replaceAll('$space', 'home'));

describe('alert rules', () => {
  it('are valid for Prometheus, lints included', async () => {
    expect(await promtool('check', 'rules', '--lint=all', '--lint-fatal', rules)).toBe('');
  }, 900_000);

  it('fire when they should, and only then', async () => {
    const cases = await readFile(join(import.meta.dirname, 'monitoring.cases.yaml'), 'utf8');
    const file = join(directory, 'cases.yaml');
    await writeFile(file, cases);
    expect(await promtool('test', 'rules', file)).toBe('');
  }, 900_000);

  it('of a late backup follows the schedule that was chosen', async () => {
    await writeRules('daily.yaml', await render('--set', 'backup.lateHours=48'));
    // At 50 minutes, 47.5 hours and a little over 48 ago.
    const tests = [
      ['-168000x120', []],
      ['-170400x120', [{ labels: '{alertname="SpaceBackupLate"}', value: 1 }]],
    ].map(([values, exp_samples]) => ({
      interval: '30s',
      input_series: [
        {
          series: 'kube_cronjob_status_last_successful_time{namespace="home-services",cronjob="backup"}',
          values,
        },
      ],
      promql_expr_test: [
        {
          expr: 'count by (alertname) (ALERTS{alertname="SpaceBackupLate", alertstate="firing"})',
          eval_time: '50m',
          exp_samples,
        },
      ],
    }));
    const file = join(directory, 'daily-cases.yaml');
    await writeFile(file, stringify({ rule_files: ['daily.yaml'], evaluation_interval: '30s', tests }));
    expect(await promtool('test', 'rules', file)).toBe('');
  }, 900_000);

  it('each says what to do, and of which Space, and has a row in the runbook', async () => {
    const { groups } = objects.find(({ kind }) => kind === 'PrometheusRule')?.['spec'] ?? {};
    const [, table = ''] = (await readFile(join(ROOT, 'docs/operations.md'), 'utf8')).split(
      '| Alert | Look first at |',
    );
    const named = table.split('\n').map((row) => row.split('|')[1] ?? '');
    for (const { alert, labels, annotations } of groups[0].rules) {
      expect(named.filter((cell) => cell.includes(`\`${alert}\``))).toHaveLength(1);
      expect([alert, labels.space, annotations.description.length > 40]).toEqual([alert, 'home', true]);
      expect(annotations.summary).toContain('Space home');
    }
  });

  it('name no value of an entry of postgres.servers that the chart refuses', () => {
    const { groups } = objects.find(({ kind }) => kind === 'PrometheusRule')?.['spec'] ?? {};
    const open = groups[0].rules.find(({ alert }: { alert: string }) => alert === 'SpaceDatabaseOpen');
    expect(open.annotations.description).toContain('postgres.external.acceptOpenDatabases');
    expect(open.annotations.description).not.toContain('postgres.servers');
  });
});

describe('the dashboard', () => {
  it('has only queries that Prometheus understands', async () => {
    const file = join(directory, 'dashboard.yaml');
    const recorded = expressions().map((expr, i) => ({ record: `panel:${i}`, expr }));
    await writeFile(file, stringify({ groups: [{ name: 'dashboard', rules: recorded }] }));
    expect(await promtool('check', 'rules', '--lint=none', file)).toBe('');
  }, 900_000);

  it('of each release can stand beside those of others in one Grafana, and is the same after an upgrade', async () => {
    const longest = 'a'.repeat(40);
    const placed = [
      ['home', 'home'],
      ['home', 'elsewhere'],
      ['work', 'home'],
      [longest, longest],
    ] as const;
    const shown = await Promise.all(
      placed.map(async ([release, namespace]) => dashboardIn(await renderOf(release, namespace))),
    );
    const uids = shown.map((one) => one.dashboard.uid);
    expect(new Set(uids).size).toBe(placed.length);
    for (const uid of uids) expect(uid).toMatch(/^[a-z0-9-]{1,40}$/);
    // A release's name is the Space's, of which a cluster has one.
    const [home, , work] = shown;
    expect([home?.file, home?.dashboard.title]).toEqual(['space-home.json', 'Space home']);
    expect([work?.file, work?.dashboard.title]).toEqual(['space-work.json', 'Space work']);
    expect(dashboardIn(await render('--is-upgrade', '--set', 'operator.replicas=1')).text).toBe(home?.text);
  });

  it('and the rules name no metric that does not exist', async () => {
    const { registry } = createMetrics();
    operatorMetrics(registry).watch({
      health: () => ({}),
      verdicts: () => [],
      proofs: () => [],
      walls: () => [],
      opened: () => [],
    });
    runtimeMetrics(registry).watchQueues({});
    createBrokerMetrics(registry, true).watchServers(() => []);
    createObjectStoreMetrics(registry, () => 0);
    createEgressMetrics(registry, () => ({ policies: 1, connections: 1, waiting: 0, inStep: true }));
    countRefusedKeys(registry, { isRefused: () => false });
    countTlsExpiry(registry, { current: () => ({ cert: '', key: new Secret('') }) });
    const known = new Set(registry.getMetricsAsArray().map(({ name }) => name));
    const asked = [await readFile(rules, 'utf8'), ...expressions()].flatMap(
      (text) => text.match(/\b[a-z]+(?:_[a-z]+)+(?=\{)/g) ?? [],
    );
    expect(asked.length).toBeGreaterThan(20);
    const strange = asked.filter((name) => {
      const base = name.replace(/_(bucket|count|sum)$/, '');
      return !known.has(name) && !known.has(base) && !/^(process|kube|kubelet)_/.test(name);
    });
    expect(strange).toEqual([]);
  });
});

describe('monitoring.labels', () => {
  const labelled = (label: string) => ['--set-json', `monitoring.labels=${JSON.stringify({ [label]: 'x' })}`];

  it('are labels of the rules and of the PodMonitor, beside the chart’s own', async () => {
    const monitors = (rendered: readonly KubeObject[]) =>
      rendered.filter(({ apiVersion }) => apiVersion === 'monitoring.coreos.com/v1');
    const own = monitors(objects).map(({ metadata }) => metadata.labels);
    const more = monitors(await render(...labelled('release'))).map(({ metadata }) => metadata.labels);
    expect(more).toEqual(own.map((labels) => ({ ...labels, release: 'x' })));
    expect(more).toHaveLength(2);
  });

  it('are refused if the chart has set one of them itself, with the name of the label', async () => {
    const own = Object.keys(objects.find(({ kind }) => kind === 'PrometheusRule')?.metadata.labels ?? {});
    expect(own).toContain('platform.space/space');
    for (const label of own)
      await expect(render(...labelled(label))).rejects.toThrow(`monitoring.labels.${label} is set`);
  });
});

it('is not rendered by default', async () => {
  const helm = await findTool('helm', directory);
  const args = ['template', 'home', CHART, '--namespace', 'home', ...SOME_IMAGES];
  const { code, stdout } = await finish(helm, args);
  expect(code).toBe(0);
  expect(stdout).not.toMatch(/monitoring\.coreos\.com|grafana_dashboard/);
});
