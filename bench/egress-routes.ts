import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { askAll } from '../brokers/egress/testing/pipeline.ts';
import { decide } from '../brokers/egress/testing/policy.ts';
import { NODE_ROUTERS, startNodeRouters } from '../brokers/egress/testing/routers.ts';
import { fuzzedTarget } from '../brokers/egress/testing/targets.ts';
import { seeded } from '../testing/random.ts';
import { quantile, type Report } from '../testing/report.ts';
import { askGo } from './egress-routes/go.ts';
import { askNginx } from './egress-routes/nginx.ts';

/**
 * Replays targets that the gateway allows on the routers of upstreams: Node's http with the WHATWG URL, Express, Go's net/http
 * and nginx. If one of them dispatches a target to another route than the gateway, an Assistant could use a route that it was
 * not granted; the run fails then. `SEED=N` repeats a run.
 */
export async function run({ quick }: { readonly quick: boolean }): Promise<Report> {
  const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31);
  console.log(`The seed is ${seed}; SEED=${seed} repeats this run.`);
  const directory = await mkdtemp(join(tmpdir(), 'space-bench-routes-'));
  try {
    const { allowed, refused, microseconds } = fuzz(quick ? 100_000 : 1_000_000, seed);
    const lines = allowed.map(({ method, sent }) => `${method} ${sent}`);
    const readings = await askEverybody(directory, lines);
    const holes = readings.flatMap(([name, routes]) =>
      allowed.flatMap(({ method, sent, route }, index) =>
        routes[index] === route || routes[index] === -1
          ? []
          : [`${name} dispatches ${method} ${sent} to route ${routes[index]}, the gateway to ${route}`],
      ),
    );
    if (holes.length > 0)
      throw new Error(
        `routers dispatch ${holes.length} targets to another route than the gateway; the seed is ${seed}\n${holes.slice(0, 9).join('\n')}`,
      );
    const same = readings.map(([name, routes]) => {
      const count = routes.filter((route) => route !== -1).length;
      // A router that finds no routes would never disagree.
      if (count < allowed.length / 2)
        throw new Error(`${name} dispatched only ${count} of ${allowed.length} targets to a route`);
      return { what: `dispatched to the same route by ${name}; it has no route for the others`, n: count };
    });
    // Refused targets are replayed, too: if the routers agreed about all of those, the targets would prove nothing.
    const doubted = await askEverybody(directory, refused);
    const contested = refused.filter(
      (_, index) => new Set(doubted.map(([, routes]) => routes[index])).size > 1,
    ).length;
    if (contested === 0)
      throw new Error('the routers agree about every refused target, so the targets prove nothing');
    return {
      title: 'Route decisions of the egress gateway, compared with the routers of upstreams',
      rows: [
        { what: 'targets decided', n: microseconds.length },
        { what: 'allowed', n: allowed.length },
        { what: 'different ones among the allowed', n: new Set(lines).size },
        ...same,
        { what: 'dispatched to another route by some router', n: holes.length },
        {
          what: `of ${refused.length} refused targets, those about whose route the routers disagree`,
          n: contested,
        },
      ],
      figures: {
        seed,
        targets: microseconds.length,
        allowed: allowed.length,
        holes: holes.length,
        contested,
        decision_p50_us: quantile(microseconds, 0.5),
        decision_p99_us: quantile(microseconds, 0.99),
      },
    };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

interface Allowed {
  readonly method: string;
  readonly sent: string;
  readonly route: number;
}

/** The number of refused targets that are sent to the routers. */
const DOUBTED = 2_000;
/** Targets that can be sent in a request line. */
const SENDABLE = /^\/i\/bank(\/[\x21-\x7e]{0,1000})$/;

function fuzz(count: number, seed: number) {
  const random = seeded(seed);
  const allowed: Allowed[] = [];
  const refused: string[] = [];
  const microseconds: number[] = [];
  for (let decided = 0; decided < count; decided += 1) {
    const { method, raw } = fuzzedTarget(random);
    const at = performance.now();
    const decision = decide(method, raw);
    microseconds.push(Math.round((performance.now() - at) * 1e6) / 1e3);
    const [, path] = SENDABLE.exec(raw) ?? [];
    if (typeof decision === 'object') allowed.push({ method, ...decision });
    else if (path !== undefined && refused.length < DOUBTED) refused.push(`${method} ${path}`);
  }
  return { allowed, refused, microseconds };
}

type Reading = readonly [name: string, routes: readonly number[]];

async function askEverybody(directory: string, lines: readonly string[]): Promise<readonly Reading[]> {
  return [
    ...(await askNode(lines)),
    ['Go', await askGo(directory, lines)],
    ['nginx', await askNginx(directory, lines)],
  ];
}

async function askNode(lines: readonly string[]): Promise<readonly Reading[]> {
  const server = await startNodeRouters();
  try {
    const answers = await askAll(server.port, lines);
    return NODE_ROUTERS.map((name, index) => [
      name,
      answers.map((answer) => (answer === '' ? -1 : Number(answer.split(' ')[index]))),
    ]);
  } finally {
    await server.close();
  }
}
