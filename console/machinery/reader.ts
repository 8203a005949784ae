import type { Ask } from '../kubernetes/client.ts';

/** Somebody who signed in, and reads with their own rights. */
export interface Reader {
  ask(ask: Ask): Promise<unknown>;
  readonly names: { readonly systemNamespace: string; readonly servicesNamespace: string };
  readonly session: { readonly id: string };
}
