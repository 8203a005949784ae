import type { Ask } from '../kubernetes/client.ts';

/** A person who has signed in, with whose rights everything is read. */
export interface Reader {
  ask(ask: Ask): Promise<unknown>;
  readonly names: { readonly systemNamespace: string; readonly servicesNamespace: string };
  readonly session: { readonly id: string };
}
