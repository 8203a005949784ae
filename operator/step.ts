import type { Finding } from './conditions.ts';

/** What one step of a reconcile comes to. */
export interface Step<Output = never> {
  /** The status of the condition that the step maintains. */
  readonly finding: Finding;
  /** What later steps are made of; undefined when they cannot be taken. */
  readonly output?: Output | undefined;
  /** Thrown once all findings are in the status, so that the queue tries again. */
  readonly retry?: unknown;
}
