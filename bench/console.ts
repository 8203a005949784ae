/**
 * Measures the console's pages in a Space with many Capsules, and checks their limits. The API server is real, with the chart's
 * roles and policies, and so is the object-storage broker; the console runs as in its image, in a process of its own.
 * `--capsules N` sets another number of Capsules, with five Assistants each. For comparison, the lists that each page needs
 * are also requested from the API server directly.
 */
import { readFileSync } from 'node:fs';
import { Agent } from 'undici';
import { Browser } from '../console/testing/browser.ts';
import type { Page as Window } from '../console/testing/browser-window.ts';
import { launchChromium } from '../console/testing/chromium.ts';
import { type Subjects, subjects } from '../console/testing/subjects.ts';
import { filled, startWithStore, type WithStore } from '../console/testing/with-store.ts';
import { eventually } from '../testing/eventually.ts';
import { quantile, type Report } from '../testing/report.ts';
import { judge, LIMITS, type Measured } from './console/judge.ts';
import { readLists } from './console/lists.ts';
import { startAsShipped } from './console/shipped.ts';

const CAPSULES = { quick: 50, full: 1_000 };
const ASSISTANTS_EACH = 5;
const LOOKS = { quick: 20, full: 100 };
const PAINTS = 10;
const READS = 20;
const AT_ONCE = 16;
const SETS = 4;
const NODES = 10;

const CAPSULE = '/capsules/capsule-0';
const CREDENTIALS = `${CAPSULE}/credentials`;
const PAGES = [
  ['Repairs', '/'],
  ['Capsules', '/capsules'],
  ['Capsule', CAPSULE],
  ['Assistant', `${CAPSULE}/assistants/assistant-0`],
  ['Credentials', CREDENTIALS],
  ['Sandbox', '/sandbox'],
  ['Diagnostics', '/diagnostics'],
] as const;

type Shipped = Awaited<ReturnType<typeof startAsShipped>>;
type Chromium = Awaited<ReturnType<typeof launchChromium>>;

export async function run({ quick, capsules }: { quick: boolean; capsules?: number }): Promise<Report> {
  const count = capsules ?? (quick ? CAPSULES.quick : CAPSULES.full);
  const whole = await startWithStore();
  try {
    await populate(whole, count);
    return await measure(whole, count, quick ? LOOKS.quick : LOOKS.full);
  } finally {
    await whole.close();
  }
}

/** Creates the population. The person who signs in may read the whole cluster, so that every page shows everything. */
async function populate(whole: WithStore, count: number): Promise<void> {
  const { environment } = whole;
  const made = subjects(environment);
  const next = Array.from({ length: count }, (_, index) => index).values();
  const lane = async () => {
    for (const index of next) await capsule(made, index);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  const { create } = environment.policyServer;
  await create('/apis/rbac.authorization.k8s.io/v1/clusterrolebindings', {
    metadata: { name: 'admin-looks' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ kind: 'ServiceAccount', name: 'admin', namespace: 'home' }],
  });
  for (let node = 0; node < NODES; node += 1)
    await create('/api/v1/nodes', { metadata: { name: `node-${node}` } });
  await whole.principal('capsule-0');
}

async function capsule(made: Subjects, index: number): Promise<void> {
  await made.capsule(`capsule-${index}`);
  for (let one = 0; one < ASSISTANTS_EACH; one += 1)
    await made.assistant(`assistant-${index * ASSISTANTS_EACH + one}`, { capsule: `capsule-${index}` });
}

async function measure(whole: WithStore, count: number, looks: number): Promise<Report> {
  const { environment, brokerUrl, store } = whole;
  const console = await startAsShipped({ ...environment.variables, OBJECT_STORE_URL: brokerUrl });
  const chromium = await launchChromium();
  try {
    const browser = new Browser(console.origin);
    const token = environment.tokens.admin;
    await browser.send(await browser.get('/sign-in'), '/sign-in', { token });
    const firstVisitKib = Math.round(await transferred(chromium, console.origin));
    for (let set = 0; set < SETS; set += 1)
      await browser.send(await browser.get(CREDENTIALS), `${CREDENTIALS}/create`, {
        ...filled(store.fields()),
        name: `set-${set}`,
      });
    const asked = await askEach(browser, looks);
    const one = console.memoryMiB();
    // The second session has lists of its own.
    const window = await signedIn(chromium, console, token);
    const pages: Measured[] = [];
    for (const page of asked)
      pages.push({ ...page, first_paint_p50_ms: await firstPaint(window, page.path) });
    const two = console.memoryMiB();
    const alone = Math.round(await listsAlone(whole));
    return reportOf(pages, { count, firstVisitKib, one, two, alone });
  } finally {
    await chromium.close();
    await console.stop();
  }
}

/** Measures the lists at the API server itself, with the same token. */
async function listsAlone({ environment }: WithStore): Promise<number> {
  const ca = readFileSync(environment.variables['KUBERNETES_CA_FILE'] ?? '', 'utf8');
  const direct = new Agent({ connect: { ca } });
  const took = await times(READS, () => readLists(environment, direct));
  await direct.close();
  return quantile(took, 0.95);
}

async function askEach(browser: Browser, looks: number) {
  const asked: (Omit<Measured, 'first_paint_p50_ms'> & { readonly path: string })[] = [];
  for (const [page, path] of PAGES) {
    const { html, status } = await browser.once('GET', path);
    if (status !== 200) throw new Error(`${path} was answered with status ${status}`);
    const took = await times(looks, () => browser.once('GET', path));
    const kb = Buffer.byteLength(html) / 1000;
    const [p50_ms, p95_ms] = [quantile(took, 0.5), quantile(took, 0.95)];
    asked.push({ page, path, kb, p50_ms, p95_ms });
  }
  return asked;
}

async function signedIn(chromium: Chromium, { origin }: Shipped, token: string): Promise<Window> {
  const window = await (await chromium.newContext({ baseURL: origin })).newPage();
  await window.goto('/sign-in');
  await window.getByLabel('Token').fill(token);
  await window.getByRole('button', { name: 'Sign in' }).click();
  await window.getByRole('heading', { level: 1, name: 'Repairs' }).waitFor();
  return window;
}

async function firstPaint(window: Window, path: string): Promise<number> {
  const paints: number[] = [];
  for (let paint = 0; paint < PAINTS; paint += 1) {
    await window.goto(path);
    const script = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime";
    paints.push(await eventually(() => window.evaluate<number>(script), { what: 'a first paint' }));
  }
  return quantile(paints, 0.5);
}

/** Returns the KiB that a browser without a cache transfers for the first page. */
async function transferred(chromium: Chromium, origin: string): Promise<number> {
  const context = await chromium.newContext({ baseURL: origin });
  const window = await context.newPage();
  await window.goto('/sign-in', { waitUntil: 'networkidle' });
  const script =
    "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')].reduce((sum, { transferSize }) => sum + transferSize, 0)";
  const bytes = await window.evaluate<number>(script);
  await context.close();
  return bytes / 1024;
}

async function times(count: number, work: () => Promise<unknown>): Promise<number[]> {
  const took: number[] = [];
  for (let round = 0; round < count; round += 1) {
    const began = performance.now();
    await work();
    took.push(performance.now() - began);
  }
  return took;
}

function reportOf(
  pages: readonly (Measured & { readonly path?: string })[],
  about: {
    readonly count: number;
    readonly firstVisitKib: number;
    readonly one: number;
    readonly two: number;
    readonly alone: number;
  },
): Report {
  const { count, firstVisitKib, one, two, alone } = about;
  const measured = pages.map(({ path: _path, ...page }) => page);
  const { rows, missed } = judge(measured, { 'one session': one, 'two sessions': two });
  const figures = Object.fromEntries(
    measured.flatMap(({ page, ...numbers }) =>
      Object.entries(numbers).map(([name, value]) => [
        `${page.toLowerCase()}_${name}`,
        Math.round(value * 10) / 10,
      ]),
    ),
  );
  return {
    title: `Pages of the console with ${count} Capsules and ${count * ASSISTANTS_EACH} Assistants; its peak memory: ${one} MiB with one session, ${two} MiB after a second one`,
    rows,
    figures: {
      capsules: count,
      first_visit_kib: firstVisitKib,
      memory_mib: one,
      memory_of_two_mib: two,
      lists_alone_p95_ms: alone,
      ...figures,
    },
    missed,
    notes: [
      `The first page of a new visitor, with style and script, is ${firstVisitKib} KiB over the network.`,
      'Published figures of a comparable program, Argo CD: its list of 6,000 applications is 2.6 MB over the network and 187 MB unpacked, and takes its server 2.5 to 4.3 s (argoproj/argo-cd issue 28090); a list of 8,000 takes 35 s (issue 9575); its script is about 600 KB (issue 9333).',
      `Limits: p95 ≤ ${LIMITS.p95_ms} ms, size ≤ ${LIMITS.kb} KB, memory ≤ ${LIMITS.memory_mib} MiB, first paint ≤ ${LIMITS.first_paint_p50_ms} ms. The API server alone takes ${alone} ms (p95) for the lists that each page needs, with the same token.`,
    ],
  };
}
