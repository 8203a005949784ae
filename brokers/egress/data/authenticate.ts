import type { Socket } from 'node:net';
import { Problem } from '../core/problem.ts';
import { type Caller, identify } from '../policies/callers.ts';
import { type Policies, plainAddress } from '../policies/policies.ts';
import { isLoopback, type Strangers } from '../policies/strangers.ts';
import type { ConnectionShares } from './connection-shares.ts';
import type { DataLimits } from './limits.ts';
import type { Line } from './record.ts';

export interface CallerOptions {
  readonly policies: Policies;
  readonly strangers: Strangers;
  readonly shares: Pick<ConnectionShares, 'arrives' | 'proved'>;
  readonly limits: DataLimits;
}

/** What a caller shows on its connection. */
interface Shown {
  readonly socket: Socket;
  readonly credential: string | undefined;
  readonly line: Line;
}

/**
 * Authenticates the caller of a request or tunnel. @throws Problem `forbidden` for an unknown caller; TurnedAway if its
 * address was refused too often
 */
export async function authenticate(
  { policies, strangers, shares, limits }: CallerOptions,
  { socket, credential, line }: Shown,
  signal: () => AbortSignal,
): Promise<Caller> {
  const { remoteAddress } = socket;
  const ms = isLoopback(plainAddress(remoteAddress ?? '')) ? limits.ownWaitMs : limits.unknownWaitMs;
  const wait = { ms, signal, arrives: (capsule: string) => shares.arrives(socket, capsule) };
  const caller = await identify({ policies, strangers }, { credential, remoteAddress }, wait);
  if (caller === undefined) throw new Problem('forbidden');
  line.tenant = caller.tenant;
  shares.proved(socket, caller.tenant.capsule);
  return caller;
}
