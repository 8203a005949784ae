import { believedFrom, requireRefusals } from '@space/broker-kit/health';
import { DATABASE } from '@space/contracts/database';

/** The container's health check: exits 0 only if the live listener refuses what it must. */
try {
  await requireRefusals(
    [
      {
        port: Number(process.env['LISTEN_PORT'] || 8080),
        method: 'POST',
        path: DATABASE.operations['capsule.finalize'].path,
        audience: 'prv',
      },
    ],
    believedFrom(process.env),
  );
} catch (error) {
  console.error(error instanceof Error ? error.message : 'unhealthy');
  process.exitCode = 1;
}
