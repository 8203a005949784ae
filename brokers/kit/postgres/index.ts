export { passwordParser, type ServerAddress, serverParser } from './address.ts';
export { type Connections, openConnections } from './connections.ts';
export { isRace, SQLSTATE, StepError, toServiceError } from './errors.ts';
export { applyMigrations } from './migrations.ts';
export { QUIET_MS } from './pool.ts';
export { closeRegistry, REFUSED, requireRegistryServer, untilReachable } from './reachable.ts';
export { type Session, sessionOver } from './session.ts';
export { inTransaction } from './transaction.ts';
export { whyUnreachable } from './unreachable.ts';
