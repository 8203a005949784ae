/**
 * What the console's pages cost in a Space of many: on a real API server with the chart's roles and policies, and the
 * console as its image has it, in a process of its own. `--capsules N` for another number of them, with five Assistants
 * each. Beside each page stands what the API server alone takes for the lists that are on it.
 */
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { Agent, request } from 'undici';
import { Browser } from '../console/testing/browser.ts';
import { launchChromium } from '../console/testing/chromium.ts';
import { startEnvironment, type TestEnvironment } from '../console/testing/environment.ts';
import { subjects } from '../console/testing/subjects.ts';
import { eventually } from '../testing/eventually.ts';
import { podCommand } from '../testing/installed/image.ts';
import { freePort } from '../testing/ports.ts';
import { quantile, type Report } from '../testing/report.ts';

const ROOT = resolve(import.meta.dirname, '..');
const CAPSULES = { quick: 50, full: 1_000 };
const ASSISTANTS_EACH = 5;
const LOOKS = { quick: 20, full: 100 };
const PAINTS = 10;
const AT_ONCE = 16;
const LISTS = ['capsules', 'assistants'].map((plural) => `/apis/platform.space/v1/namespaces/home/${plural}`);

/** Pages, and the lists that are read for each. */
const PAGES = [
  ['Repairs', '/', LISTS],
  ['Capsules', '/capsules', LISTS],
  ['Capsule', '/capsules/capsule-0', LISTS],
  ['Assistant', '/capsules/capsule-0/assistants/assistant-0', LISTS],
] as const;

export async function run({ quick, capsules }: { quick: boolean; capsules?: number }): Promise<Report> {
  const count = capsules ?? (quick ? CAPSULES.quick : CAPSULES.full);
  const looks = quick ? LOOKS.quick : LOOKS.full;
  const bundled = spawnSync(process.execPath, ['scripts/bundle.ts', 'console'], { cwd: ROOT });
  if (bundled.status !== 0) throw new Error(bundled.stderr.toString());
  const environment = await startEnvironment();
  try {
    await populate(environment, count);
    return await measure(environment, count, looks);
  } finally {
    await environment.close();
  }
}

async function populate(environment: TestEnvironment, count: number): Promise<void> {
  const made = subjects(environment);
  const next = Array.from({ length: count }, (_, index) => index).values();
  const lane = async () => {
    for (const index of next) {
      await made.capsule(`capsule-${index}`);
      for (let one = 0; one < ASSISTANTS_EACH; one += 1)
        await made.assistant(`assistant-${index * ASSISTANTS_EACH + one}`, { capsule: `capsule-${index}` });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
}

async function measure(environment: TestEnvironment, count: number, looks: number): Promise<Report> {
  const console = await startAsShipped(environment);
  const chromium = await launchChromium();
  try {
    const browser = new Browser(console.origin);
    const { viewer } = environment.tokens;
    await browser.send(await browser.get('/sign-in'), '/sign-in', { token: viewer });
    const firstVisitKib = Math.round(await transferred(chromium, console.origin));
    const ca = readFileSync(environment.variables['KUBERNETES_CA_FILE'] ?? '', 'utf8');
    const direct = new Agent({ connect: { ca } });
    const asked: Record<string, number | string>[] = [];
    for (const [page, path, lists] of PAGES) {
      const { html, status } = await browser.once('GET', path);
      if (status !== 200) throw new Error(`${path}: ${status}`);
      const took = await times(looks, () => browser.once('GET', path));
      const alone = await times(looks, () => listed(environment, direct, lists));
      asked.push({
        page,
        kib: Buffer.byteLength(html) / 1024,
        p50_ms: quantile(took, 0.5),
        p95_ms: quantile(took, 0.95),
        lists_alone_p95_ms: quantile(alone, 0.95),
      });
    }
    const memory = { one: console.memoryMiB(), two: 0 };

    // Another session, with lists of its own.
    const context = await chromium.newContext({ baseURL: console.origin });
    const window = await context.newPage();
    await window.goto('/sign-in');
    await window.getByLabel('Token').fill(viewer);
    await window.getByRole('button', { name: 'Sign in' }).click();
    await window.getByRole('heading', { level: 1, name: 'Repairs' }).waitFor();
    const rows: Record<string, number | string>[] = [];
    const figures: Record<string, number> = {};
    for (const [index, [page, path]] of PAGES.entries()) {
      const paints: number[] = [];
      for (let paint = 0; paint < PAINTS; paint += 1) {
        await window.goto(path);
        const script = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime";
        paints.push(await eventually(() => window.evaluate<number>(script), { what: 'a first paint' }));
      }
      const row = { ...asked[index], first_paint_p50_ms: quantile(paints, 0.5) };
      rows.push(row);
      for (const [name, value] of Object.entries(row))
        if (typeof value === 'number') figures[`${page.toLowerCase()}_${name}`] = Math.round(value * 10) / 10;
    }
    memory.two = console.memoryMiB();
    return {
      title: `Pages of the console, ${count} Capsules and ${count * ASSISTANTS_EACH} Assistants; the most memory it had: ${memory.one} MiB in one session, ${memory.two} MiB after a second`,
      rows,
      figures: {
        capsules: count,
        first_visit_kib: firstVisitKib,
        memory_mib: memory.one,
        memory_of_two_mib: memory.two,
        ...figures,
      },
      notes: [
        `The first page that anybody sees, with style and script: ${firstVisitKib} KiB over the wire.`,
        'Published of a peer: the list of 6,000 applications in Argo CD is 2.6 MB over the wire, 187 MB unpacked, and takes its server 2.5 to 4.3 s (argoproj/argo-cd issue 28090); its script is about 600 KB (issue 9333).',
        'Wanted: p95 ≤ 50 ms, ≤ 100 KB, ≤ 96 MiB, first paint ≤ 300 ms. Lists alone: the same tables from the API server, with the same token, at the same time.',
      ],
    };
  } finally {
    await chromium.close();
    await console.stop();
  }
}

/** KiB that a browser that was never there fetches for the first page. */
async function transferred(chromium: Awaited<ReturnType<typeof launchChromium>>, origin: string) {
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

/** The program of the image, with the image's settings. */
async function startAsShipped({ variables }: TestEnvironment) {
  const port = await freePort();
  const origin = `http://localhost:${port}`;
  const pod = await podCommand('console/Dockerfile', 'console');
  const child = spawn(process.execPath, [...pod.flags, `${ROOT}/dist/console/main.mjs`], {
    env: {
      ...variables,
      ORIGINS: origin,
      LISTEN_PORT: String(port),
      LOG_LEVEL: 'error',
      ...pod.environment,
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  await eventually(async () => (await request(`${origin}/healthz`)).statusCode === 200, {
    what: 'a console',
  });
  return {
    origin,
    memoryMiB(): number {
      const [, kib = ''] =
        /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8')) ?? [];
      return Math.round(Number(kib) / 102.4) / 10;
    },
    stop: () =>
      new Promise((resolve) => {
        child.once('exit', resolve);
        child.kill();
      }),
  };
}

/** What of a page's time is the API server's: tables, in pages as the console asks for them. */
async function listed(
  { judged, tokens }: TestEnvironment,
  dispatcher: Agent,
  paths: readonly string[],
): Promise<void> {
  const headers = {
    authorization: `Bearer ${tokens.viewer}`,
    accept: 'application/json;as=Table;v=v1;g=meta.k8s.io',
  };
  for (const path of paths)
    for (let next = ''; ; ) {
      const query = new URLSearchParams({ limit: '500', ...(next === '' ? {} : { continue: next }) });
      const answer = await request(`${judged.server.url}${path}?${query}`, { headers, dispatcher });
      const { metadata } = (await answer.body.json()) as { metadata?: { continue?: string } };
      next = metadata?.continue ?? '';
      if (next === '') break;
    }
}
