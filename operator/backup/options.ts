import { z } from 'zod';
import { jsonOption } from '../json-option.ts';

/** What the chart says about a Space whose state is backed up, as JSON in `BACKUP`. */
export const backupOptions = z.strictObject({
  space: z.string().min(1),
  /** Where people keep Capsules, Assistants and the values of stored inputs. */
  releaseNamespace: z.string().min(1),
  systemNamespace: z.string().min(1),
  servicesNamespace: z.string().min(1),
  /** The age recipient whose identity the administrator keeps offline. */
  recipient: z.string().startsWith('age1'),
  /** The file for the sealed state, which another program uploads. */
  file: z.string().min(1),
  /** The host in URLs of each PostgreSQL server, by its name: which one a Capsule was on follows from its own URL. */
  databaseHosts: z.record(z.string().min(1), z.string().min(1)).default({}),
  /** The versions of the chart and of its brokers' registries: an older version does not restore the backup. */
  version: z.string().min(1),
  schemas: z.strictObject({ database: z.int().min(1), objectStore: z.int().min(1) }),
});

export type BackupOptions = z.infer<typeof backupOptions>;

/** The environment; each sentence is what docs/configuration.md says of a variable. */
export const schema = z.object({
  BACKUP: jsonOption(backupOptions).describe(
    'What the chart knows of the Space, as JSON: the names of its namespaces, the recipient of the backup, the file to write and the versions.',
  ),
});
