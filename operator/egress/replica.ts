import { type AnswerOf, type OperationName, operationOf, type RequestOf } from '@space/contracts';
import { createTransport, type TransportOptions, understand } from '@space/contracts/client';
import { EGRESS } from '@space/contracts/egress';
import type { Secret } from '@space/contracts/secret';

/** One running copy of the gateway. */
export interface Replica {
  /** It names one start of its process: after another start a replica has forgotten everything. */
  readonly key: string;
  readonly address: string;
  /** Whether callers are sent to it, so that it must acknowledge. */
  readonly serving: boolean;
}

/** Why a replica did not do what it was told; the message holds nothing that was sent. */
export class ReplicaError extends Error {
  override readonly name = 'ReplicaError';
  readonly code: string;

  constructor(code: string, options: { readonly cause?: unknown } = {}) {
    super(`an egress gateway replica said ${code}`, options);
    this.code = code;
  }
}

export interface ReplicaOptions extends Pick<TransportOptions, 'onCall'> {
  readonly port: number;
  readonly token: () => Promise<Secret>;
  /** The only authority whose certificates are believed, and the name that they are for; without both, plain HTTP. */
  readonly trust?: { readonly readCa: () => Promise<string>; readonly name: string } | undefined;
}

const CALL_MS = 5_000;

type Operation = OperationName<typeof EGRESS>;
export type CallReplica = <Name extends Operation>(
  replica: Replica,
  operation: Name,
  request: RequestOf<typeof EGRESS, Name>,
  signal: AbortSignal,
) => Promise<AnswerOf<typeof EGRESS, Name>>;

/** The way to a replica, by its pod's address. A call is made once; the work queue tries again. */
export function replicaCaller({ port, token, trust, onCall }: ReplicaOptions): CallReplica {
  const scheme = trust ? 'https' : 'http';
  const transport = createTransport({ trust, connectMs: CALL_MS, onCall });

  async function send(replica: Replica, operation: Operation, body: unknown, signal: AbortSignal) {
    const host = replica.address.includes(':') ? `[${replica.address}]` : replica.address;
    const url = `${scheme}://${host}:${port}${operationOf(EGRESS, operation).path}`;
    const longest = EGRESS.longest.answer;
    try {
      return await transport({
        operation,
        url,
        token: await token(),
        body,
        longest,
        timeoutMs: CALL_MS,
        signal,
      });
    } catch (cause) {
      throw new ReplicaError('nothing', { cause });
    }
  }

  return async (replica, operation, request, signal) => {
    const answer = await send(replica, operation, request, signal);
    const understood = understand(EGRESS, operation, answer);
    if (understood.kind === 'done') return understood.value;
    if (understood.kind === 'refused') throw new ReplicaError(understood.code);
    throw new ReplicaError(answer.status === 200 ? 'something in no known form' : String(answer.status));
  };
}
