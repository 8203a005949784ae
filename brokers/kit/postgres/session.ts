import type pg from 'pg';

/** Sends one statement under the name of its step, so that a failure says where it happened and never what was sent. */
export type SendStatement = <Row extends pg.QueryResultRow>(
  step: string,
  text: string,
  values?: readonly unknown[],
) => Promise<Row[]>;

/**
 * Statements are sent as they are called, in that order, without waiting for the answer to the one before: statements
 * that do not need each other's answers go out together, in one `Promise.all`, and cost one round trip.
 */
export interface Session {
  /** Runs any statement. */
  readonly run: SendStatement;
  /** Runs a statement that changes nothing, though it may lock rows: a transaction sends it before BEGIN is answered. */
  readonly read: SendStatement;
}

/** A session without a difference between its two ways to send. */
export function sessionOver(send: SendStatement): Session {
  return { run: send, read: send };
}
