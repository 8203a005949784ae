import { ConfigError } from '../config.ts';
import type { Logger } from '../log.ts';
import type { Connections } from './connections.ts';
import { SQLSTATE, StepError } from './errors.ts';
import { whyUnreachable } from './unreachable.ts';

/** Waits for the server, which may start together with the service and finish its bootstrap later. */
export async function untilReachable(connections: Connections, log: Logger): Promise<void> {
  const deadline = Date.now() + 120_000;
  for (;;) {
    try {
      await connections.session((session) => session.read('reach server', 'SELECT 1'));
      return;
    } catch (error) {
      if (!(error instanceof StepError)) throw error;
      const why = whyUnreachable(error);
      // A server that is starting never answers with this code.
      if (error.code === SQLSTATE.protocolViolation || Date.now() > deadline)
        throw new ConfigError(why, { cause: error });
      log.warn({ err: error }, `waiting: ${why}`);
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }
}

/** Messages about servers that cannot hold a registry. */
export const REFUSED = {
  pooled:
    'a connection pooler answers instead of the server, and would mix up sessions that hold locks, limits and proofs: name the server itself',
  standby: 'the server is a read-only standby: name the primary, or a Service that follows it',
  /** A server may refuse writes though it is not a standby: some are set read-only while their disk is full. */
  readOnly: (role: string) =>
    `it accepts no writes: free space on its disk, or undo default_transaction_read_only (ALTER ROLE ${role} RESET default_transaction_read_only; ALTER SYSTEM RESET default_transaction_read_only)`,
};

/** @throws unless the server can hold a registry */
export async function requireRegistryServer(connections: Connections): Promise<void> {
  const refuse = (why: string) => {
    throw new ConfigError(`the registry's server is not ready: ${why}`);
  };
  if (await connections.isPooled()) refuse(REFUSED.pooled);
  const [found] = await connections.session((session) =>
    session.read<{ standby: boolean; readOnly: boolean; role: string }>(
      'ask for writes',
      `SELECT pg_is_in_recovery() AS standby, current_setting('transaction_read_only')::boolean AS "readOnly",
              quote_ident(current_user) AS role`,
    ),
  );
  if (found?.standby) refuse(REFUSED.standby);
  if (found?.readOnly) refuse(REFUSED.readOnly(found.role));
}

/** Revokes PUBLIC's right to connect to the registry's database, if the server accepts writes. */
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
