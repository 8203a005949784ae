import { ServiceError, type SharedSlots } from '@space/broker-kit';
import type { Context } from '../context.ts';
import type { ServerPlan } from './config.ts';

/** Why a server cannot be used, as a sentence. */
export type ServerState =
  | { readonly kind: 'ready' }
  | { readonly kind: 'unreachable'; readonly why: string }
  /** The server does not pass the preflight, or is the same as another one. */
  | { readonly kind: 'unfit'; readonly why: string };

/** What requests use on a server. */
export interface Usable {
  readonly context: Context;
  readonly mutations: SharedSlots;
}

/** One of the broker's servers, whether it can be used now or not. */
export interface DatabaseServer extends Pick<ServerPlan, 'name' | 'weight' | 'drain'> {
  state(): ServerState;
  /** What was opened, even while the server does not answer. */
  opened(): Usable | undefined;
}

export const isReady = (server: DatabaseServer): boolean => server.state().kind === 'ready';

/** @throws ServiceError unless the server is ready */
export function requireUsable(server: DatabaseServer): Usable {
  const opened = server.opened();
  if (opened !== undefined && isReady(server)) return opened;
  const state = server.state();
  const why = state.kind === 'ready' ? 'it is not open' : state.why;
  throw new ServiceError('unavailable', `server ${server.name}: ${why}`, { retryAfter: 5 });
}
