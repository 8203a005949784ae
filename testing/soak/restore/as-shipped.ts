/** What the chart gives a backup where nothing else is said (`charts/space/values.yaml`). */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parse } from 'yaml';
import * as z from 'zod';

const VALUES = resolve(import.meta.dirname, '../../../charts/space/values.yaml');

/** Thousandths of a processor, as the chart writes them. */
const millicores = z
  .string()
  .regex(/^[1-9]\d*m$/)
  .transform((text) => Number.parseInt(text, 10));
const requests = z.object({ cpu: millicores });

const values = z.object({
  backup: z.object({
    postgres: z.object({ archiveSeconds: z.int() }),
    resources: z.object({ requests, limits: z.object({ cpu: millicores }) }),
  }),
  postgres: z.object({ resources: z.object({ requests }) }),
});

export interface AsShipped {
  /** What each container of a backup may take of a processor, in thousandths. */
  readonly millicores: number;
  /** What each gets of it beside PostgreSQL where both want it, as a part of what PostgreSQL gets. */
  readonly part: number;
  /** The log is archived after so many seconds at the latest. */
  readonly archiveSeconds: number;
}

export function asShipped(): AsShipped {
  const { backup, postgres } = values.parse(parse(readFileSync(VALUES, 'utf8')));
  return {
    millicores: backup.resources.limits.cpu,
    part: backup.resources.requests.cpu / postgres.resources.requests.cpu,
    archiveSeconds: backup.postgres.archiveSeconds,
  };
}
