import { ConfigError } from '../config.ts';
import type { Logger } from '../log.ts';
import type { Connections } from './connections.ts';
import { SQLSTATE, StepError } from './errors.ts';
import { whyUnreachable } from './unreachable.ts';

/** Waits for the server, which may start beside the service and finish its bootstrap after it. */
export async function untilReachable(connections: Connections, log: Logger): Promise<void> {
  const deadline = Date.now() + 120_000;
  for (;;) {
    try {
      await connections.session((session) => session.read('reach server', 'SELECT 1'));
      return;
    } catch (error) {
      if (!(error instanceof StepError)) throw error;
      const why = whyUnreachable(error);
      // A server that starts never answers so.
      if (error.code === SQLSTATE.protocolViolation || Date.now() > deadline)
        throw new ConfigError(why, { cause: error });
      log.warn({ err: error }, `waiting: ${why}`);
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }
}

export const POOLED =
  'a pool of connections answers in the place of the server: it would mix up sessions that hold locks, limits and proofs: name the server itself';

/** Fails closed behind a pool of connections, which lends one session of the server to several of its clients. */
export async function requireNoPool(connections: Connections): Promise<void> {
  if (await connections.isPooled()) throw new ConfigError(`the registry's server is not ready: ${POOLED}`);
}

/** Takes the right to connect to the registry's database from PUBLIC, where the server takes writes at all. */
export async function closeRegistry(connections: Connections): Promise<void> {
  await connections.session((session) =>
    session.run(
      'close registry',
      `DO $$ BEGIN
         IF NOT current_setting('transaction_read_only')::boolean AND EXISTS (SELECT FROM pg_database d, aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a
                    WHERE d.datname = current_database() AND a.grantee = 0) THEN
           EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
         END IF;
       END $$`,
    ),
  );
}
