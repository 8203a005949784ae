import { ServiceError } from '@space/broker-kit';
import { type Context, ofCapsule } from '../context.ts';
import type { DatabaseRow } from '../core/decide.ts';
import { doorsOf } from '../core/quota.ts';
import type { Admission } from '../isolation/statements.ts';
import type { LimitsRow } from '../limits/rows.ts';
import { MAIN } from '../servers/config.ts';
import { findPlacement } from '../servers/placements.ts';
import type { Servers } from '../servers/router.ts';
import { requireUsable } from '../servers/server.ts';

/** The source or the target of a move. */
export interface End {
  readonly name: string;
  readonly context: Context;
}

/** A move. It is noted on three servers (the first one, the source, the target), of which two may be the same. */
export interface Way {
  readonly capsule: string;
  readonly main: Context;
  readonly from: End;
  readonly to: End;
}

/** A registered database of a Capsule that moves. */
export type Moving = DatabaseRow & { readonly app: string };

export interface Whereabouts {
  readonly server: string;
  readonly movingTo: string | null;
}

export async function whereaboutsOf(servers: Servers, capsule: string): Promise<Whereabouts> {
  const { connections } = mainOf(servers);
  const { server, movingTo, onMain } = await findPlacement(connections.lookup, capsule);
  const name = server ?? (onMain ? MAIN : undefined);
  if (name === undefined) throw new ServiceError('not_found', 'no such Capsule');
  return { server: name, movingTo };
}

export const mainOf = ({ all: [main] }: Servers): Context => requireUsable(main).context;

/** @throws ServiceError if no server has that name, or the server cannot be used now */
export function endOf({ all }: Servers, capsule: string, name: string): End {
  const server = all.find((one) => one.name === name);
  if (server === undefined) throw new ServiceError('not_found', `no server is named ${name}`);
  return { name, context: ofCapsule(requireUsable(server).context, capsule) };
}

export const entryOf = (traceId: string, capsule: string, outcome: string) => ({
  traceId,
  operation: 'administrator.move',
  authority: 'administrator',
  capsule,
  outcome,
});

/** The state in which a database is returned to its workload. */
export function admissionOf(context: Context, { closed }: Moving, limits: LimitsRow | undefined): Admission {
  const connections = limits?.connections ?? context.connectionLimit;
  const { open, connections: ofDatabase } = doorsOf(limits?.door ?? 'open', connections);
  return { login: !closed, open: !closed && open, ofRole: connections, ofDatabase };
}

/** Refuses a command of another attempt than the present one. An ended attempt has an empty name. */
export function requireAttempt(found: { readonly attempt: string } | undefined, attempt: string): void {
  if (attempt === '' || found?.attempt !== attempt)
    throw new ServiceError('conflict', 'another copy was begun since, or the move was taken back');
}
