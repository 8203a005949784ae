import type { Row } from '../../testing/report.ts';

/** The measurements of one page. */
export interface Measured {
  readonly page: string;
  readonly kb: number;
  readonly p50_ms: number;
  readonly p95_ms: number;
  readonly first_paint_p50_ms: number;
}

/** The limits of a page and of the program. */
export const LIMITS = { kb: 100, p95_ms: 50, first_paint_p50_ms: 300, memory_mib: 96 } as const;

const OF_A_PAGE = ['kb', 'p95_ms', 'first_paint_p50_ms'] as const;

/** Returns each missed limit as a text, and the rows with a verdict. */
export function judge(
  pages: readonly Measured[],
  memory: Readonly<Record<string, number>>,
): { readonly rows: readonly Row[]; readonly missed: readonly string[] } {
  const missedBy = (page: Measured) => OF_A_PAGE.filter((key) => page[key] > LIMITS[key]);
  const rows = pages.map((page) => {
    const missed = missedBy(page);
    return { ...page, verdict: missed.length === 0 ? 'met' : `MISSED ${missed.join(', ')}` };
  });
  const ofPages = pages.flatMap((page) =>
    missedBy(page).map(
      (key) => `${page.page}: ${key} is ${page[key].toFixed(1)}, the limit is ${LIMITS[key]}`,
    ),
  );
  const ofMemory = Object.entries(memory)
    .filter(([, mib]) => mib > LIMITS.memory_mib)
    .map(([when, mib]) => `peak memory with ${when}: ${mib} MiB, the limit is ${LIMITS.memory_mib} MiB`);
  return { rows, missed: [...ofPages, ...ofMemory] };
}
