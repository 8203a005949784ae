import { checkHealth } from '@space/broker-kit/health';
import { EGRESS } from '@space/contracts/egress';
import { DEFAULT_LIMITS } from './data/limits.ts';

await checkHealth(process.env, [
  {
    port: Number(process.env['CONTROL_PORT'] || 8080),
    method: 'POST',
    path: EGRESS.operations['policy.put'].path,
    audience: EGRESS.audiences.provisioner,
  },
  {
    port: Number(process.env['DATA_PORT'] || 3128),
    method: 'POST',
    path: '/i/nobody/x',
    audience: 'egr',
    plain: true,
    heldMs: DEFAULT_LIMITS.ownWaitMs,
  },
]);
