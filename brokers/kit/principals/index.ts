export {
  about,
  authorisedCapsule,
  type Call,
  exchangePrincipal,
  finalizeCapsule,
  registerCapsule,
  retireCapsule,
  type Undecided,
  unlessTaken,
} from './capsules.ts';
export { pendingDrops } from './pending.ts';
export {
  type AuditEntry,
  audit,
  expectOne,
  findPrincipal,
  isRetired,
  lockCapsule,
  moveCapsule,
  type Principal,
  retirePrincipal,
} from './rows.ts';
export { AUDIT_TABLE, CAPSULE_TABLES, installationId } from './tables.ts';
