import { expect, test } from 'vitest';
import { openByokFixture } from './testing/byok-fixture.ts';
import { checkGrantRevocation } from './testing/revocation.ts';

test('after a change has answered, no request on either of two replicas is served with what was before it', async () => {
  const fixture = await openByokFixture();
  try {
    const replica = await fixture.replica({ environment: fixture.environment });
    const found = await checkGrantRevocation(fixture, { replicas: [fixture.broker, replica], wanted: 300 });
    await replica.stop();
    expect(found.stale).toBe(0);
    expect(found.requests).toBeGreaterThanOrEqual(300);
    // Both outcomes were there to be seen.
    expect(Math.min(found.served, found.refused)).toBeGreaterThan(0);
  } finally {
    await fixture.close();
  }
});
