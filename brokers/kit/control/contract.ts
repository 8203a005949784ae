import type { z } from 'zod';

/** Who may call an operation: the Space's provisioner, or the Capsule that the request names. */
export type Authority = 'provisioner' | 'capsule';

interface OperationContract {
  readonly path: `/v1/${string}`;
  readonly authority: Authority;
  /** Closed; has `capsule_id`. */
  readonly request: z.ZodObject;
  /** Closed; has `trace_id`. */
  readonly response: z.ZodObject;
}

/** A control listener's operations by name: one schema for each request and answer. */
export type Contract = Readonly<Record<string, OperationContract>>;

export type RequestOf<C extends Contract, Name extends keyof C> = z.infer<C[Name]['request']>;
export type AnswerOf<C extends Contract, Name extends keyof C> = Omit<
  z.infer<C[Name]['response']>,
  'trace_id'
>;

export function operationsOf<C extends Contract>(contract: C): readonly (keyof C & string)[] {
  return Object.keys(contract);
}

/** One operation; its name is of the contract, so it is there. */
export function contractOf<C extends Contract, Name extends keyof C>(contract: C, name: Name): C[Name] {
  return contract[name];
}

/** The operations as a driver document tells them. */
export function describe(contract: Contract) {
  return Object.entries(contract).map(([name, { path, authority, request, response }]) => ({
    name,
    method: 'POST' as const,
    path,
    authority,
    request: Object.keys(request.shape),
    response: Object.keys(response.shape),
  }));
}
