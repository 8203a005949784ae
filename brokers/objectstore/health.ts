import { believedFrom, requireRefusals } from '@space/broker-kit/health';
import { OBJECT_STORE } from '@space/contracts/objectstore';

/** The container's health check: exits 0 only if both live listeners refuse what they must. */
try {
  await requireRefusals(
    [
      {
        port: Number(process.env['LISTEN_PORT'] || 8080),
        method: 'POST',
        path: OBJECT_STORE.operations['capsule.finalize'].path,
        audience: 'prv',
      },
      {
        port: Number(process.env['DATA_PORT'] || 8081),
        method: 'PUT',
        path: '/v1/objects/data/health',
        audience: 'osw',
      },
    ],
    believedFrom(process.env),
  );
} catch (error) {
  console.error(error instanceof Error ? error.message : 'unhealthy');
  process.exitCode = 1;
}
