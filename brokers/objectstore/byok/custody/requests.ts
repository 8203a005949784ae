import { ServiceError } from '@space/broker-kit';
import type { Session } from '@space/broker-kit/postgres';
import type { Seals } from './seals.ts';

/**
 * The answer for an idempotency key is stored for a day: a caller that has lost it repeats the request and gets the
 * same answer.
 */

export interface RequestKey {
  readonly capsule: string;
  readonly incarnation: number;
  readonly idempotencyKey: string;
  /** The whole request in a fixed form, including secret values; only its MAC is stored. */
  readonly request: string;
}

interface Row {
  readonly kid: string;
  readonly request: string;
  readonly answer: string;
  readonly mac: string;
}

/** The stored answer of the same request. @throws ServiceError `conflict` if another request had the key */
export async function findAnswer(session: Session, seals: Seals, key: RequestKey): Promise<unknown> {
  const [row] = await session.run<Row & { [column: string]: unknown }>(
    'find credential request',
    `SELECT kid, request, answer, mac FROM broker.credential_request
     WHERE capsule_id = $1 AND life = $2 AND idempotency_key = $3`,
    [key.capsule, key.incarnation, key.idempotencyKey],
  );
  if (row === undefined) return undefined;
  const mac = seals.mac(row.kid, 'answer', answerParts(key, row));
  if (mac === undefined || mac !== row.mac)
    throw new ServiceError('custody_unavailable', 'a stored answer was changed');
  if (seals.mac(row.kid, 'request', requestParts(key)) !== row.request)
    throw new ServiceError('conflict', 'the idempotency key was used for another request');
  return JSON.parse(row.answer);
}

export async function keepAnswer(
  session: Session,
  seals: Seals,
  key: RequestKey,
  answer: unknown,
): Promise<void> {
  const kid = seals.primary;
  const kept = {
    kid,
    request: seals.mac(kid, 'request', requestParts(key)) ?? '',
    answer: JSON.stringify(answer),
  };
  await session.run(
    'keep credential request',
    `INSERT INTO broker.credential_request (capsule_id, life, idempotency_key, kid, request, answer, mac)
     VALUES ($1, $2, $3, $4, $5, $6, $7)`,
    [
      key.capsule,
      key.incarnation,
      key.idempotencyKey,
      kid,
      kept.request,
      kept.answer,
      seals.mac(kid, 'answer', answerParts(key, kept)) ?? '',
    ],
  );
}

export async function forgetAnswers(session: Session): Promise<void> {
  await session.run(
    'forget old credential requests',
    "DELETE FROM broker.credential_request WHERE at < clock_timestamp() - interval '1 day'",
  );
}

function requestParts({ capsule, incarnation, idempotencyKey, request }: RequestKey): string[] {
  return [capsule, String(incarnation), idempotencyKey, request];
}

function answerParts({ capsule, incarnation, idempotencyKey }: RequestKey, row: Omit<Row, 'mac'>): string[] {
  return [capsule, String(incarnation), idempotencyKey, row.kid, row.request, row.answer];
}
