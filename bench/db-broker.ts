import type { Report } from '../testing/report.ts';
import { commit, createByHand, createByVault, createMany, createWarm, openByHand } from './db/create.ts';
import { cut } from './db/cut.ts';
import { openDatabaseFixture } from './db/fixture.ts';
import { refuse } from './db/refuse.ts';
import { type Part, round } from './db/samples.ts';
import { buildVault } from './vault.ts';

/**
 * Measures the database broker over HTTP with all of its functions (authentication, registry, audit, log). It is compared with
 * the same work in SQL (CREATE ROLE, CREATE DATABASE and the REVOKE and GRANT statements on an open connection), and with
 * Vault's PostgreSQL plugin, which creates roles but no databases. The server is durable and on the same machine; the broker
 * runs as in its pod. `--only refuse,cut` measures only these parts.
 */

/** The size of the pool, and of the burst that empties it. */
const POOL = { quick: 24, whole: 64 };
const RATIOS = [
  ['again_over_warm_ratio', 'create_again_p50_ms', 'warm_create_p50_ms'],
  ['again_over_commit_ratio', 'create_again_p50_ms', 'commit_p50_ms'],
  ['by_hand_over_warm_ratio', 'by_hand_p50_ms', 'warm_create_p50_ms'],
  ['sustained_over_by_hand_4_ratio', 'sustained_per_second', 'by_hand_4_per_second'],
  ['burst_over_vault_ratio', 'burst_per_second', 'vault_roles_per_second'],
  ['open_by_hand_over_vault_ratio', 'open_by_hand_per_second', 'vault_roles_per_second'],
  ['burst_over_open_by_hand_ratio', 'burst_per_second', 'open_by_hand_per_second'],
  ['cut_over_by_hand_p99_ratio', 'cut_p99_ms', 'cut_by_hand_p99_ms'],
] as const;

/** The required ratios. Both sides of each are measured in one run, so that the machine is equally fast for both. */
const ASKED: readonly (readonly [
  figure: string,
  what: string,
  target: string,
  isMet: (ratio: number) => boolean,
])[] = [
  [
    'again_over_warm_ratio',
    'time of a repeated create, divided by the time of a first one',
    '≤ 0.33',
    (ratio) => ratio <= 1 / 3,
  ],
  [
    'burst_over_vault_ratio',
    "creates per second in a burst, divided by Vault's roles per second",
    '≥ 1.5',
    (ratio) => ratio >= 1.5,
  ],
];

function verdicts(figures: Readonly<Record<string, number>>): string[] {
  return ASKED.flatMap(([figure, what, target, isMet]) => {
    const ratio = figures[figure];
    return ratio === undefined
      ? []
      : [`${what}: ${ratio}, required ${target}: ${isMet(ratio) ? 'met' : 'MISSED'}`];
  });
}

interface Options {
  readonly quick: boolean;
  readonly only?: readonly string[];
}

export async function run({ quick, only }: Options): Promise<Report> {
  const spares = quick ? POOL.quick : POOL.whole;
  const fixture = await openDatabaseFixture(spares);
  const isWanted = (part: string) => only === undefined || only.includes(part);
  const vault = isWanted('vault') ? await buildVault() : undefined;
  /** Parts that create many databases come last, since autovacuum then visits each of them, up to ten a second. */
  const parts: Readonly<Record<string, () => Promise<Part>>> = {
    commit: () => commit(fixture, quick),
    warm: () => createWarm(fixture, spares, quick),
    refuse: () => refuse(fixture, quick),
    cut: () => cut(fixture, quick),
    many: () => createMany(fixture, spares, quick),
    opened: () => openByHand(fixture, spares),
    hand: () => createByHand(fixture, quick),
    ...(vault ? { vault: () => createByVault(fixture, vault, quick) } : {}),
  };
  try {
    const unknown = only?.find((name) => !(name in parts));
    if (unknown !== undefined)
      throw new Error(
        `--only names the unknown part ${unknown}; the parts are ${Object.keys(parts).join(', ')}`,
      );
    const told: Part[] = [];
    for (const [name, part] of Object.entries(parts)) if (isWanted(name)) told.push(await part());
    const figures: Record<string, number> = Object.assign({}, ...told.map((part) => part.figures));
    for (const [name, over, under] of RATIOS) {
      const [a, b] = [figures[over], figures[under]];
      if (a !== undefined && b !== undefined) figures[name] = round(a / b);
    }
    return {
      title: 'Database broker over HTTP, with a durable PostgreSQL 18 on the same machine',
      rows: told.flatMap(({ rows }) => rows),
      figures: {
        ...figures,
        server_connections: await fixture.connections(),
        rss_mib: round(fixture.rssMiB()),
        ready_s: round(fixture.readySeconds),
      },
      notes: [
        ...verdicts(figures),
        'A repeated create sets the password of the role again, since the tenant may have changed it and the broker cannot read it, and writes an audit entry, but does not wait for the disk. The row of the COMMIT shows how long such a wait takes.',
      ],
    };
  } finally {
    await fixture.close();
    await vault?.remove();
  }
}
