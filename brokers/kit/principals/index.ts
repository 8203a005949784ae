export {
  about,
  authorisedCapsule,
  type Call,
  finalizeCapsule,
  registerCapsule,
  retireCapsule,
  type Undecided,
} from './capsules.ts';
export {
  type AuditEntry,
  audit,
  expectOne,
  findPrincipal,
  isRetired,
  lockCapsule,
  moveCapsule,
  replacePrincipal,
  retirePrincipal,
} from './rows.ts';
export { AUDIT_TABLE, CAPSULE_TABLES, installationId } from './tables.ts';
