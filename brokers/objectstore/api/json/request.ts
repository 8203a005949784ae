import { checkBodyHead, readJsonObject, ServiceError } from '@space/broker-kit';
import type * as z from 'zod';
import type { IncomingBody, ObjectCall } from '../../objects/types.ts';
import { MAX_PUT_BYTES } from '../../objects/writer.ts';
import type { Admission } from '../admission.ts';
import { type Exchange, type Received, writeJson } from '../exchange.ts';
import { detach } from '../request-body.ts';
import type { Matched, Operation } from './routes.ts';
import { type BodyOf, parseBody } from './schemas.ts';

/** The prefix of callers' own metadata headers. */
export const METADATA = 'x-object-meta-';
export const SMALL_BODY = 16 * 1024;
export const LARGE_BODY = 1024 * 1024;

/** An admitted request. */
export interface Admitted extends Matched {
  readonly exchange: Exchange;
  readonly call: ObjectCall;
  readonly headers: Received;
  readonly query: ReadonlyMap<string, string>;
}

export type Handlers<Name extends Operation> = Readonly<Record<Name, (admitted: Admitted) => Promise<void>>>;

/** Parses the body's JSON with its schema; a large body is parsed in turns with others. */
export async function readBody<Schema extends z.ZodType>(
  admission: Admission,
  { exchange }: Admitted,
  { schema, limits, list }: BodyOf<Schema>,
  limit: number,
): Promise<z.output<Schema>> {
  const { request } = exchange;
  checkBodyHead(request, limit);
  const announced = request.headers['content-length'];
  const { done, inTurn } = await admission.document(
    exchange,
    announced === undefined ? limit : Number(announced),
  );
  try {
    const body = await untilEnded(exchange, readJsonObject(request, limit, { limits, inTurn }));
    return await parseBody({ schema, limits, list }, body, inTurn);
  } finally {
    done();
  }
}

/** Ends the wait when the request is ended, for one that its caller sends too slowly or whose principal is retired. */
async function untilEnded<T>({ abort: { signal } }: Exchange, work: Promise<T>): Promise<T> {
  const { promise: ended, reject } = Promise.withResolvers<never>();
  const end = () => reject(signal.reason);
  signal.addEventListener('abort', end, { once: true });
  if (signal.aborted) end();
  return Promise.race([work, ended]).finally(() => signal.removeEventListener('abort', end));
}

/** The body as a stream of known length, which Node's parser enforces. */
export function incomingBody({ headers, exchange: { request }, call }: Admitted): IncomingBody {
  const text = headers.get('content-length');
  if (text === undefined || headers.has('transfer-encoding'))
    throw new ServiceError('length_required', 'no length');
  if (!/^[0-9]{1,16}$/.test(text)) throw new ServiceError('invalid_request', 'length');
  const length = Number(text);
  if (length > MAX_PUT_BYTES) throw new ServiceError('too_large', 'more than one request may bring');
  return { stream: detach(request, call), length };
}

export function noBody({ headers }: Admitted): void {
  const length = headers.get('content-length');
  if (headers.has('transfer-encoding') || (length !== undefined && length !== '0'))
    throw new ServiceError('invalid_request', 'a body where none belongs');
}

export function answer({ exchange }: Admitted, content: object): void {
  writeJson(exchange, 200, JSON.stringify({ ...content, trace_id: exchange.traceId }));
}
