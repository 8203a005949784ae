/** `node backup.mjs`: writes a Space's state, sealed for its administrator, to the file that `BACKUP` names. */
import { KubeConfig } from '@kubernetes/client-node';
import { pino } from 'pino';
import { apiClient } from '../runtime/client.ts';
import { connect } from '../runtime/connection.ts';
import { collect } from './collect.ts';
import { schema } from './options.ts';
import { put, seal } from './seal.ts';

const { BACKUP: options } = schema.parse(process.env);
const log = pino({
  base: { service: 'backup', space: options.space },
  timestamp: pino.stdTimeFunctions.isoTime,
  formatters: { level: (level) => ({ level }) },
});
const kubeConfig = new KubeConfig();
kubeConfig.loadFromDefault();
const connection = connect(kubeConfig);
try {
  const taken = new Date().toISOString();
  const objects = await collect(apiClient(connection), options);
  const { space, releaseNamespace: release, systemNamespace: system, servicesNamespace: services } = options;
  const namespaces = { release, system, services };
  const { version, schemas, databaseHosts } = options;
  const about = { format: 1, space, namespaces, version, schemas, databaseHosts, taken } as const;
  const header = { ...about, objects: objects.length };
  await put(options.file, await seal(header, objects, options.recipient));
  log.info({ objects: objects.length }, 'state sealed');
} catch (error) {
  log.fatal({ err: error }, 'nothing was sealed; the next run tries again');
  process.exitCode = 1;
} finally {
  await connection.close();
}
