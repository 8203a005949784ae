/** The chart's default limits of a backup (`charts/space/values.yaml`). */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parse } from 'yaml';
import * as z from 'zod';

const VALUES = resolve(import.meta.dirname, '../../../charts/space/values.yaml');

/** Thousandths of a processor in the chart's notation. */
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
  /** The processor limit of each container of a backup, in thousandths. */
  readonly millicores: number;
  /** The share of each container if PostgreSQL wants the processor, too, relative to the share of PostgreSQL. */
  readonly part: number;
  /** The most seconds until the log is archived. */
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
