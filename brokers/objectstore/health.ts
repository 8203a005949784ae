import { checkHealth } from '@space/broker-kit/health';
import { OBJECT_STORE } from '@space/contracts/objectstore';

await checkHealth(process.env, [
  {
    port: Number(process.env['LISTEN_PORT'] || 8080),
    method: 'POST',
    path: OBJECT_STORE.operations['capsule.finalize'].path,
    audience: OBJECT_STORE.audiences.provisioner,
  },
  {
    port: Number(process.env['DATA_PORT'] || 8081),
    method: 'PUT',
    path: '/v1/objects/data/health',
    audience: 'osw',
  },
]);
