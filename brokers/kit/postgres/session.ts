import type pg from 'pg';

/** Sends one statement under the name of its step. A failure reports the step, and never what was sent. */
export type SendStatement = <Row extends pg.QueryResultRow>(
  step: string,
  text: string,
  values?: readonly unknown[],
) => Promise<Row[]>;

/**
 * Statements are sent in the order of the calls, without waiting for previous answers. Statements that do not need each
 * other's answers can therefore be sent together with `Promise.all`, in one round trip.
 */
export interface Session {
  /** Runs any statement. */
  readonly run: SendStatement;
  /**
   * Runs a statement that changes nothing, though it may lock rows; a transaction sends it before BEGIN is answered.
   */
  readonly read: SendStatement;
}

/** A session that sends reads and other statements alike. */
export function sessionOver(send: SendStatement): Session {
  return { run: send, read: send };
}
