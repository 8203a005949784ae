export { driverDirectory } from './documents.ts';
export { runService } from './run.ts';
export { startShell } from './shell.ts';
