import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import { type Logger, lengthPrefixed, type Secret, type TokenDigest } from '@space/broker-kit';
import type { Connections } from '@space/broker-kit/postgres';
import type { PlaceNames } from './names.ts';

/** Whose principal leads to which place. */
interface Binding {
  readonly capsule: string;
  readonly app: string;
  readonly life: number;
  readonly generation: number;
  /** The Capsule's place, which what its Assistants share is in. */
  readonly within: string;
  readonly place: string;
  readonly principal: TokenDigest | Buffer;
}

/**
 * Says by a MAC in each workload's row that this Space gave the place to the principal: who can write to the registry
 * can give nobody another's files by an edit. The key is derived from the one that places are named by.
 */
export interface Bindings {
  mac(binding: Binding): Buffer;
  holds(binding: Binding, mac: Buffer | null): boolean;
}

export function createBindings(secret: Secret<Buffer>, space: string): Bindings {
  const key = Buffer.from(hkdfSync('sha256', secret.reveal(), '', 'space-object-binding/v1', 32));
  const mac = ({ capsule, app, life, generation, within, place, principal }: Binding): Buffer =>
    createHmac('sha256', key)
      .update(lengthPrefixed([space, capsule, app, String(life), String(generation), within, place]))
      .update(principal)
      .digest();
  return {
    mac,
    holds: (binding, found) => found !== null && found.length === 32 && timingSafeEqual(found, mac(binding)),
  };
}

interface UnboundRow {
  readonly capsule: string;
  readonly app: string;
  readonly life: number;
  readonly generation: number;
  readonly within: string;
  readonly place: string;
  readonly principal: Buffer;
}

/** Rows of a version that bound none. A place that the names do not give is left as it is, and so closed. */
export function bindUnbound(
  connections: Pick<Connections, 'transaction'>,
  bindings: Bindings,
  places: PlaceNames,
  log: Logger,
): Promise<void> {
  return connections.transaction(async (session) => {
    const rows = await session.run<UnboundRow & { [column: string]: unknown }>(
      'find unbound workloads',
      `SELECT w.capsule_id AS capsule, w.app_id AS app, w.life, w.generation, s.place AS within, w.place, w.principal
       FROM broker.workload w JOIN broker.store s ON s.capsule_id = w.capsule_id AND s.life = w.life
       WHERE w.state = 'ready' AND w.mac IS NULL FOR UPDATE OF w`,
    );
    for (const row of rows) {
      const { capsule, app, life, generation, within, place } = row;
      const named =
        places.capsule(capsule, life) === within && places.workload(within, app, generation) === place;
      if (!named) log.error({ capsule, app }, 'a workload whose place the names do not give');
      else
        await session.run(
          'bind workload',
          'UPDATE broker.workload SET mac = $3 WHERE capsule_id = $1 AND app_id = $2',
          [capsule, app, bindings.mac(row)],
        );
    }
  });
}
