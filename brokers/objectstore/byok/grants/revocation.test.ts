import { expect, test } from 'vitest';
import { setByokStage } from './testing/byok-stage.ts';
import { checkGrantRevocation } from './testing/revocation.ts';

test('after a change has answered, no request on either of two replicas is served with what was before it', async () => {
  const stage = await setByokStage();
  try {
    const replica = await stage.replica({ environment: stage.environment });
    const found = await checkGrantRevocation(stage, { replicas: [stage.broker, replica], wanted: 300 });
    await replica.stop();
    expect(found.stale).toBe(0);
    expect(found.requests).toBeGreaterThanOrEqual(300);
    // Both outcomes were there to be seen.
    expect(Math.min(found.served, found.refused)).toBeGreaterThan(0);
  } finally {
    await stage.close();
  }
});
