import type { Secret } from '@space/broker-kit';
import type { AnswerOf, OperationName, RequestOf } from '@space/contracts';
import { createTransport, type TransportOptions } from '@space/contracts/client';
import { STATUS, VERIFICATION_CHECKS } from '@space/contracts/errors';
import { CREDENTIALS, OBJECT_STORE } from '@space/contracts/objectstore';
import * as z from 'zod';
import { isFieldValue } from '../../manifests/driver/formats.ts';
import { type CredentialForm, credentialForm } from '../../manifests/driver/objectstore.ts';

type Credentials = { readonly operations: typeof CREDENTIALS } & typeof OBJECT_STORE;
type Name = Extract<OperationName<Credentials>, keyof typeof CREDENTIALS>;

/** The five operations of the object-storage broker, and its credential form. */
export interface CredentialBroker {
  form(): Promise<CredentialForm>;
  call<N extends Name>(
    name: N,
    principal: Secret<string>,
    body: RequestOf<Credentials, N>,
  ): Promise<AnswerOf<Credentials, N>>;
}

/** The broker refused with one of its codes, or with an unexpected answer. */
export class CredentialError extends Error {
  override readonly name = 'CredentialError';
  readonly code: keyof typeof STATUS;
  readonly check: (typeof VERIFICATION_CHECKS)[number] | undefined;

  constructor(
    code: CredentialError['code'],
    options: { readonly check?: CredentialError['check']; readonly cause?: unknown } = {},
  ) {
    super(`the object-storage broker: ${code}`, 'cause' in options ? { cause: options.cause } : {});
    this.code = code;
    this.check = options.check;
  }
}

/**
 * Why there is no usable answer, as a code: errors of the connection may quote the request, and answers may contain
 * stored values.
 */
export class AwayError extends Error {
  override readonly name = 'AwayError';
  readonly code: string;

  constructor(code: string) {
    super(`no valid answer: ${code}`);
    this.code = code;
  }
}

const away = (code: string) => new CredentialError('unavailable', { cause: new AwayError(code) });

const codes = Object.keys(STATUS) as (keyof typeof STATUS)[];
const refusal = z.object({
  error: z.strictObject({ code: z.enum(codes), check: z.enum(VERIFICATION_CHECKS).optional() }),
});

/** Longer than other calls, since a candidate is verified for some seconds. */
const CALL_MS = 30_000;

export function credentialBroker(options: {
  readonly url: string;
  readonly trust?: TransportOptions['trust'];
}): CredentialBroker {
  const transport = createTransport({ trust: options.trust });

  async function send(
    operation: string,
    path: string,
    post?: { readonly token: Secret; readonly body: object },
  ) {
    try {
      const { status, body } = await transport({
        ...{ operation, url: options.url + path, ...post },
        ...{ longest: OBJECT_STORE.longest.answer, timeoutMs: CALL_MS },
      });
      return { status, json: JSON.parse(body.toString('utf8')) };
    } catch (error) {
      throw away(codeOf(error));
    }
  }

  return {
    async form() {
      const { json } = await send('driver.credentials', '/v1/driver/credentials');
      const form = trusted(credentialForm, json);
      checkLabels(form);
      return form;
    },
    async call(name, principal, body) {
      const { path, response } = CREDENTIALS[name];
      const { status, json } = await send(name, path, { token: principal, body });
      if (status !== 200) {
        const said = refusal.safeParse(json).data?.error;
        if (said === undefined) throw away(`HTTP_${status}`);
        throw new CredentialError(said.code, said.check === undefined ? {} : { check: said.check });
      }
      const answer = trusted<z.ZodType>(response, json);
      checkPlaces(answer);
      return answer as never;
    },
  };
}

/** Anything outside the strict schema of an answer is shown to nobody, not even in an error. */
function trusted<T extends z.ZodType>(schema: T, json: unknown): z.infer<T> {
  const parsed = schema.safeParse(json);
  if (!parsed.success) throw away('NOT_IN_FORM');
  return parsed.data;
}

/** A few short words: a key in place of a label is longer than any of them. */
const LABEL = /^[A-Za-z][A-Za-z0-9]{0,11}(?: [A-Za-z][A-Za-z0-9]{0,11}){0,4}$/;

function checkLabels({ forms: [{ label, fields }] }: CredentialForm): void {
  const isPlain = [label, ...fields.map((field) => field.label)].every((one) => LABEL.test(one));
  if (!isPlain) throw away('NOT_IN_FORM');
}

const place = z.object({ endpoint_host: z.string(), region: z.string(), bucket: z.string() });

/** The destination of a set must have the form's format, so that a compromised broker cannot insert another text. */
function checkPlaces(answer: unknown): void {
  const sets = z.object({ sets: z.array(place) }).safeParse(answer).data?.sets ?? [];
  const one = place.safeParse(answer).data;
  for (const { endpoint_host: host, region, bucket } of one === undefined ? sets : [one]) {
    const isPlace =
      isFieldValue(`https://${host}`, { format: 'https-origin', min: 1, max: 267 }) &&
      isFieldValue(region, { format: 's3-region', min: 1, max: 32 }) &&
      isFieldValue(bucket, { format: 's3-bucket', min: 3, max: 63 });
    if (!isPlace) throw away('NOT_IN_FORM');
  }
}

function codeOf(error: unknown): string {
  const { code, name } = error instanceof Error ? (error as NodeJS.ErrnoException) : { name: typeof error };
  return typeof code === 'string' ? code : name;
}
