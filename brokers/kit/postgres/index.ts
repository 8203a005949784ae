export { parseServerUrl } from './address.ts';
export {
  type Connections,
  openConnections,
  type ServerAddress,
  type Session,
} from './connections.ts';
export { isRace, SQLSTATE, StepError, toServiceError } from './errors.ts';
export { applyMigrations } from './migrations.ts';
export { closeRegistry, untilReachable } from './reachable.ts';
export { inTransaction, sessionOver } from './transaction.ts';
