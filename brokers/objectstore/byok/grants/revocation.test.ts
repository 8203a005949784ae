import { expect, test } from 'vitest';
import { openByokFixture } from './testing/byok-fixture.ts';
import { checkGrantRevocation } from './testing/revocation.ts';

test('after the answer to a change, neither of two replicas serves a request with the earlier state', async () => {
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
