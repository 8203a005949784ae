import {
  type AnswerOf,
  type Contract,
  type OperationName,
  operationOf,
  type RequestOf,
} from '../contract.ts';
import { createTransport, type Sending, type Token } from './transport.ts';
import { isUntrusted } from './trust.ts';
import { understand } from './understand.ts';

export type BrokerFailure = 'unreachable' | 'untrusted' | 'not-ours' | 'refused';

/** The broker's name for people, and that of its Deployment. */
export interface BrokerName {
  readonly name: string;
  readonly deployment: string;
}

/** A call to a broker failed. `code` is the broker's own, from its catalogue. */
export class BrokerError extends Error {
  override readonly name = 'BrokerError';
  readonly broker: BrokerName;
  readonly failure: BrokerFailure;
  readonly status: number | undefined;
  readonly code: string | undefined;

  constructor(
    broker: BrokerName,
    failure: BrokerFailure,
    message: string,
    options: { readonly status?: number; readonly code?: string; readonly cause?: unknown } = {},
  ) {
    super(message, 'cause' in options ? { cause: options.cause } : {});
    this.broker = broker;
    this.failure = failure;
    this.status = options.status;
    this.code = options.code;
  }
}

export interface BrokerOptions {
  readonly broker: BrokerName;
  readonly url: string;
  /** The expected discovery document. */
  readonly driver: Buffer;
  /** The only trusted authority; with it, plain HTTP is refused. */
  readonly readCa?: (() => Promise<string>) | undefined;
  readonly onCall?: (operation: string, code: string, tookMs: number) => void;
}

interface CallOptions {
  readonly token: Token;
  readonly signal: AbortSignal;
  readonly timeoutMs?: number;
}

/** Calls an operation of the contract, by its name. */
export type Call<C extends Contract> = <Name extends OperationName<C>>(
  name: Name,
  request: RequestOf<C, Name>,
  options: CallOptions,
) => Promise<AnswerOf<C, Name>>;

const CALL_MS = 15_000;
/** A quota is exceeded, so repeating the call does not help. */
const NO_ROOM = 507;
/** Milliseconds for which a verified broker counts as verified, so that a burst of Assistants needs one check. */
const IDENTIFIED_MS = 5_000;

/**
 * A client of one broker. A call is made once; the caller repeats it. No token is sent before the broker's discovery
 * document was compared, byte for byte, with the expected one.
 */
export function brokerClient<C extends Contract>(contract: C, options: BrokerOptions): Call<C> {
  const { broker, driver, readCa } = options;
  const { name } = broker;
  if (readCa && new URL(options.url).protocol !== 'https:')
    throw new Error(`the ${name} is asked by https where an authority is configured`);
  const url = options.url.replace(/\/$/, '');
  const transport = createTransport({ trust: readCa && { readCa }, onCall: options.onCall });
  let seenOurs = Number.NEGATIVE_INFINITY;

  async function send(path: string, sending: Omit<Sending, 'url' | 'longest'>) {
    try {
      return await transport({ ...sending, url: url + path, longest: contract.longest.answer });
    } catch (cause) {
      seenOurs = Number.NEGATIVE_INFINITY;
      throw isUntrusted(cause)
        ? new BrokerError(broker, 'untrusted', 'its certificate is not trusted', { cause })
        : new BrokerError(broker, 'unreachable', `the ${name} did not answer`, { cause });
    }
  }

  async function identify(signal: AbortSignal): Promise<void> {
    if (performance.now() - seenOurs < IDENTIFIED_MS) return;
    const { status, body } = await send('/v1/driver', { operation: 'driver', signal, timeoutMs: CALL_MS });
    if (status >= 500) throw new BrokerError(broker, 'unreachable', `the ${name} is not ready`, { status });
    if (status !== 200 || !body.equals(driver))
      throw new BrokerError(broker, 'not-ours', 'its discovery document is not the one built in', { status });
    seenOurs = performance.now();
  }

  return async (operation, body, { token, signal, timeoutMs = CALL_MS }) => {
    await identify(signal);
    const { path } = operationOf(contract, operation);
    const answer = await send(path, { operation, signal, timeoutMs, token, body });
    const { status } = answer;
    const understood = understand(contract, operation, answer);
    if (understood.kind === 'done') return understood.value;
    if (status === 200)
      throw new BrokerError(broker, 'unreachable', `the answer of the ${name} has an unknown form`, {
        status,
      });
    // An answer without the broker's own error comes from a proxy in front of it.
    if (understood.kind === 'foreign' || (status >= 500 && status !== NO_ROOM) || status === 429)
      throw new BrokerError(
        broker,
        'unreachable',
        `the ${name} could not process the request now (${status})`,
        { status },
      );
    const { code } = understood;
    throw new BrokerError(broker, 'refused', `the ${name} refused (${status} ${code})`, { status, code });
  };
}
