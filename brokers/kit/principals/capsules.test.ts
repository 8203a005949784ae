import { Secret } from '@space/contracts/secret';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Fixture, openFixture } from '../../db/testing/postgres.ts';
import { digestOf, newToken } from '../tokens.ts';
import { authorisedCapsule, exchangePrincipal } from './capsules.ts';

/** The check under the lock, without the look-up that comes before it in service. */

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture();
});
afterAll(() => fixture.close());

const authorised = (capsule: string, principal: string | undefined, operation: 'apps' | 'drop' = 'apps') =>
  fixture.broker.context.connections
    .transaction((session) =>
      authorisedCapsule(
        session,
        { traceId: 'trace', ...(principal ? { principal: digestOf(new Secret(principal)) } : {}) },
        capsule,
        operation,
      ),
    )
    .then(
      ({ state }) => state,
      (error: { code?: string }) => error.code,
    );

describe('under the lock of a Capsule', () => {
  it('its own principal is accepted, and neither none, an unknown one nor that of another Capsule', async () => {
    const { token } = await fixture.broker.capsule('locked');
    const other = await fixture.broker.capsule('other');
    expect(await authorised('locked', token)).toBe('active');
    expect(await authorised('locked', undefined)).toBe('forbidden');
    expect(await authorised('locked', newToken('dbp').reveal())).toBe('forbidden');
    expect(await authorised('locked', other.token)).toBe('forbidden');
    expect(await authorised('nowhere', token)).toBe('forbidden');
  });

  it('a principal that was exchanged since it was looked up is refused', async () => {
    const { token } = await fixture.broker.capsule('exchanged');
    const next = newToken('dbp');
    await fixture.broker.context.connections.transaction((session) =>
      exchangePrincipal(session, 'trace', 'exchanged', digestOf(next)),
    );
    expect(await authorised('exchanged', token)).toBe('forbidden');
    expect(await authorised('exchanged', next.reveal())).toBe('active');
  });

  it('a principal that was retired since it was looked up is refused, also where it may try a drop again', async () => {
    const capsule = await fixture.broker.capsule('retired');
    expect((await capsule.dropAll('retired')).status).toBe(200);
    expect(await authorised('retired', capsule.token)).toBe('forbidden');
    expect(await authorised('retired', newToken('dbp').reveal(), 'drop')).toBe('forbidden');
  });
});
