import { checkHealth } from '@space/broker-kit/health';
import { DATABASE } from '@space/contracts/database';

await checkHealth(process.env, [
  {
    port: Number(process.env['LISTEN_PORT'] || 8080),
    method: 'POST',
    path: DATABASE.operations['capsule.finalize'].path,
    audience: DATABASE.audiences.provisioner,
  },
]);
