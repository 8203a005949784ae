import type * as z from 'zod';
import type { ErrorCode } from './errors.ts';

/** Who may call an operation: the Space's provisioner, the Capsule that the request names, or a read-only observer. */
export type Authority = 'provisioner' | 'capsule' | 'observer';

/** The service and kind of caller that a token is for. It is in the token's prefix, so that leaks are found and mix-ups refused early. */
export type Audience = 'prv' | 'dbp' | 'osp' | 'osw' | 'egr' | 'obs';

/** One operation: what is asked, by whom, what is answered, and what may be refused. */
export interface Operation {
  readonly path: `/v1/${string}`;
  readonly authority: Authority;
  readonly summary: string;
  /** Closed. */
  readonly request: z.ZodObject;
  /** Closed; has `trace_id`. */
  readonly response: z.ZodObject;
  /** What it may be refused with, beside the errors of every operation. */
  readonly errors: readonly ErrorCode[];
  /** Served for the operator of the same release; the driver document does not tell of it. */
  readonly unlisted?: true;
}

/** A document that is served word for word, to anybody. */
interface Document {
  readonly operation: string;
  readonly summary: string;
}

/**
 * All that the two ends of a control listener agree on. The service's routes, its clients, its OpenAPI document and its
 * driver document are made from it.
 */
export interface Contract {
  readonly title: string;
  /** The audience of the tokens of each authority. */
  readonly audiences: Readonly<{ provisioner: Audience } & Partial<Record<Authority, Audience>>>;
  /** The documents by path. */
  readonly documents: Readonly<Record<`/v1/${string}`, Document>>;
  readonly operations: Readonly<Record<string, Operation>>;
  /** What a status means here, where it means more than everywhere. */
  readonly meanings: Readonly<Record<number, string>>;
  /** Bytes of the longest request and of the longest answer. */
  readonly longest: { readonly request: number; readonly answer: number };
}

export type OperationName<C extends Contract> = keyof C['operations'] & string;
/** What nobody changes once it is said. */
type Said<T> = T extends readonly (infer E)[]
  ? readonly Said<E>[]
  : T extends object
    ? { readonly [Key in keyof T]: Said<T[Key]> }
    : T;
export type RequestOf<C extends Contract, Name extends OperationName<C>> = Said<
  z.infer<C['operations'][Name]['request']>
>;
export type AnswerOf<C extends Contract, Name extends OperationName<C>> = z.infer<
  C['operations'][Name]['response']
>;

export function operationsOf<C extends Contract>({ operations }: C): readonly OperationName<C>[] {
  return Object.keys(operations);
}

/** One operation; its name is of the contract, so it is there. */
export function operationOf<C extends Contract, Name extends OperationName<C>>(
  { operations }: C,
  name: Name,
): C['operations'][Name] {
  return operations[name] as C['operations'][Name];
}
