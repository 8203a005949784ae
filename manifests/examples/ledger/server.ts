/** An example Assistant: a double-entry ledger. It needs DATABASE_URL and listens on PORT (8080). */
import { startService } from './service.ts';

const log = (event: object) => console.log(JSON.stringify({ time: new Date().toISOString(), ...event }));

const stopped = new Promise<string>((resolve) => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, resolve);
});

try {
  const { DATABASE_URL: databaseUrl, PORT: port = '8080' } = process.env;
  if (databaseUrl === undefined) throw new Error('DATABASE_URL is not set');
  if (!/^[0-9]{1,5}$/.test(port) || Number(port) > 65_535) throw new Error('PORT is not a port');
  const starting = startService({ databaseUrl, port: Number(port), environment: process.env, log });
  // If it is told to stop while it still waits for its database, it just ends.
  const service = await Promise.race([starting, stopped.then(() => undefined)]);
  if (service !== undefined) {
    log({ event: 'listening', port: service.port });
    log({ event: 'draining', signal: await stopped });
    await service.stop();
  }
} catch (error) {
  log({ event: 'cannot start', error: error instanceof Error ? error.message : String(error) });
  process.exitCode = 1;
}
process.exit();
