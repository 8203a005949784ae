import { ServiceError, type SharedSlots } from '@space/broker-kit';
import type { Context } from '../context.ts';
import type { ServerPlan } from './config.ts';

/** What keeps a server from being used, as a sentence. */
export type ServerState =
  | { readonly kind: 'ready' }
  | { readonly kind: 'unreachable'; readonly why: string }
  /** It does not pass the preflight, or is another server's twin. */
  | { readonly kind: 'unfit'; readonly why: string };

/** What requests work with on a server. */
export interface Usable {
  readonly context: Context;
  readonly mutations: SharedSlots;
}

/** One of the broker's servers, whether it can be used now or not. */
export interface DatabaseServer extends Pick<ServerPlan, 'name' | 'weight' | 'drain'> {
  state(): ServerState;
  /** What was opened once, also while it does not answer. */
  opened(): Usable | undefined;
}

export const isReady = (server: DatabaseServer): boolean => server.state().kind === 'ready';

/** What there is to work with on the server, which must be ready. */
export function requireUsable(server: DatabaseServer): Usable {
  const opened = server.opened();
  if (opened !== undefined && isReady(server)) return opened;
  const state = server.state();
  const why = state.kind === 'ready' ? 'it is not open' : state.why;
  throw new ServiceError('unavailable', `server ${server.name}: ${why}`, { retryAfter: 5 });
}
