import { type AnswerOf, type OperationName, operationOf, type RequestOf } from '@space/contracts';
import { createTransport, type TransportOptions, understand } from '@space/contracts/client';
import { EGRESS } from '@space/contracts/egress';
import type { Secret } from '@space/contracts/secret';

/** One running process of the gateway. */
export interface Replica {
  /** Identifies one process: a replica that restarts has forgotten everything. */
  readonly key: string;
  readonly address: string;
  /** The name of its pod, for people. */
  readonly pod: string;
  /** Whether callers are sent to this replica, so that it must acknowledge. */
  readonly serving: boolean;
  /** Whether its pod should have ended by now, so that its node is lost, and Kubernetes has given the process up. */
  readonly lost: boolean;
}

/** Why a call to a replica failed; the message contains nothing that was sent. */
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
  /** The only trusted authority, and the name in the replicas' certificates; without both, plain HTTP. */
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

/** Returns a function that calls a replica by the address of its pod. A call is made once; the work queue retries. */
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
