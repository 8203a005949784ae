import type * as z from 'zod';
import type { ErrorCode } from './errors.ts';

/** Who may call an operation: the Space's provisioner, the Capsule that the request names, or a read-only observer. */
export type Authority = 'provisioner' | 'capsule' | 'observer';

/**
 * The service and kind of caller that a token is for. It is the token's prefix, so that leaked tokens can be found and
 * exchanged ones are refused early.
 */
export type Audience = 'prv' | 'dbp' | 'osp' | 'osw' | 'egr' | 'obs';

/** One operation: its authority, request, response and errors. */
export interface Operation {
  readonly path: `/v1/${string}`;
  readonly authority: Authority;
  readonly summary: string;
  /** A strict schema. */
  readonly request: z.ZodObject;
  /** A strict schema with `trace_id`. */
  readonly response: z.ZodObject;
  /** Errors in addition to those that every operation may return. */
  readonly errors: readonly ErrorCode[];
  /** Not listed in the driver document, since it is served for the operator of the same release. */
  readonly unlisted?: true;
}

/** A document that is served unchanged to everybody. */
interface Document {
  readonly operation: string;
  readonly summary: string;
}

/**
 * Everything that both sides of a control listener agree on. The service's routes, its clients, its OpenAPI document
 * and its driver document are derived from it.
 */
export interface Contract {
  readonly title: string;
  /** The audience of the tokens of each authority. */
  readonly audiences: Readonly<{ provisioner: Audience } & Partial<Record<Authority, Audience>>>;
  /** The documents by path. */
  readonly documents: Readonly<Record<`/v1/${string}`, Document>>;
  readonly operations: Readonly<Record<string, Operation>>;
  /** The meaning of a status in this contract, if it is more specific than elsewhere. */
  readonly meanings: Readonly<Record<number, string>>;
  /** The most bytes of a request and of an answer. */
  readonly longest: { readonly request: number; readonly answer: number };
}

export type OperationName<C extends Contract> = keyof C['operations'] & string;
/** A type whose content is read-only at every level. */
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

/** The operation of this name; the type guarantees that there is one. */
export function operationOf<C extends Contract, Name extends OperationName<C>>(
  { operations }: C,
  name: Name,
): C['operations'][Name] {
  return operations[name] as C['operations'][Name];
}
