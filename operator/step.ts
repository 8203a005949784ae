import type { Finding } from './conditions.ts';

/** The result of one step of a reconcile. */
export interface Step<Output = never> {
  /** What the condition that the step maintains shall say. */
  readonly finding: Finding;
  /** What later steps need; undefined if they cannot be taken. */
  readonly output?: Output | undefined;
  /** An error that is thrown after all findings are in the status, so that the queue retries. */
  readonly retry?: unknown;
}
