import { believedFrom, requireRefusals } from '@space/broker-kit/health';
import { EGRESS } from '@space/contracts/egress';
import { DEFAULT_LIMITS } from './data/limits.ts';

/** The container's health check: exits 0 only if both live listeners refuse whoever they must. */
const port = (name: string, fallback: number) => Number(process.env[name] || fallback);

try {
  const operator = {
    port: port('CONTROL_PORT', 8080),
    method: 'POST',
    path: EGRESS.operations['policy.put'].path,
    audience: 'prv',
  } as const;
  const caller = {
    port: port('DATA_PORT', 3128),
    method: 'POST',
    path: '/i/nobody/x',
    audience: 'egr',
    heldMs: DEFAULT_LIMITS.unknownWaitMs,
  } as const;
  await Promise.all([
    requireRefusals([operator], believedFrom(process.env)),
    requireRefusals([caller], undefined),
  ]);
} catch (error) {
  console.error(error instanceof Error ? error.message : 'unhealthy');
  process.exitCode = 1;
}
