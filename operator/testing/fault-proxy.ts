import {
  createServer,
  type IncomingMessage,
  request as requestPlainly,
  type ServerResponse,
} from 'node:http';
import { request as requestSecurely } from 'node:https';

/** What becomes of a request, or of its answer. */
type Fault =
  /** Answered in the server's place. */
  | {
      readonly kind: 'answer';
      readonly status: number;
      readonly retryAfter?: number;
      /** A status object where nothing is said. */
      readonly body?: string;
    }
  /**
   * Its bytes are let through up to here, and then the connection breaks (`cut`), ends in good order (`end`), or stays
   * open and nothing more comes (`mute`).
   */
  | { readonly kind: 'cut' | 'end' | 'mute'; readonly afterBytes: number }
  /** The connection breaks before the server has received anything. */
  | { readonly kind: 'drop' }
  /** No answer arrives, not even its head, and the connection stays open. */
  | { readonly kind: 'stall' }
  /** It takes effect, and its answer never arrives. */
  | { readonly kind: 'lost' };

interface Asked {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
}

/** A way to a server on which a test says what goes wrong, request by request. */
export interface FaultProxy {
  readonly port: number;
  /** Every request so far, of which a client in a hot loop makes many. */
  readonly asked: readonly Asked[];
  /** Decides over each request from now on; undefined lets it pass. */
  fault(decide: (asked: Asked) => Fault | undefined): void;
  /** Ends what is under way, watches too. */
  cut(): void;
  /** What is under way stays open, and nothing more comes of it. */
  mute(): void;
  close(): Promise<void>;
}

export async function openFaultProxy(server: { readonly url: string }): Promise<FaultProxy> {
  const request = server.url.startsWith('https:') ? requestSecurely : requestPlainly;
  let decide: (asked: Asked) => Fault | undefined = () => undefined;
  const asked: Asked[] = [];
  const open = new Set<ServerResponse>();
  const muted = new WeakSet<ServerResponse>();

  const proxy = createServer((near, answer) => {
    const what = { method: near.method ?? 'GET', url: near.url ?? '/' };
    asked.push(what);
    open.add(answer);
    answer.once('close', () => open.delete(answer));
    const fault = decide(what);
    if (fault?.kind === 'answer') {
      near.resume();
      refuse(answer, fault);
      return;
    }
    if (fault?.kind === 'drop') {
      near.destroy();
      return;
    }
    if (fault?.kind === 'stall') {
      near.resume();
      return;
    }
    const far = request(
      `${server.url}${what.url}`,
      // A server of these tests' own, on loopback.
      { method: what.method, headers: near.headers, rejectUnauthorized: false },
      (from) => pass(from, answer, fault, muted),
    );
    far.on('error', () => answer.destroy());
    answer.once('close', () => far.destroy());
    near.pipe(far);
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const address = proxy.address();
  const cut = () => {
    for (const answer of open) answer.destroy();
  };
  return {
    port: typeof address === 'object' && address ? address.port : 0,
    asked,
    fault(next) {
      decide = next;
    },
    cut,
    mute() {
      for (const answer of open) muted.add(answer);
    },
    async close() {
      cut();
      proxy.closeAllConnections();
      await new Promise((resolve) => proxy.close(resolve));
    },
  };
}

function refuse(answer: ServerResponse, { status, retryAfter, body }: Fault & { kind: 'answer' }): void {
  const reason = { 410: 'Expired', 429: 'TooManyRequests' }[status] ?? 'InternalError';
  answer.writeHead(status, {
    'content-type': 'application/json',
    ...(retryAfter === undefined ? {} : { 'retry-after': String(retryAfter) }),
  });
  answer.end(
    body ?? JSON.stringify({ kind: 'Status', code: status, reason, message: 'a fault of the test' }),
  );
}

function pass(
  from: IncomingMessage,
  answer: ServerResponse,
  fault: Fault | undefined,
  muted: WeakSet<ServerResponse>,
): void {
  if (fault?.kind === 'lost') {
    from.resume();
    answer.destroy();
    return;
  }
  answer.writeHead(from.statusCode ?? 502, from.headers);
  answer.flushHeaders();
  const breaks = fault?.kind === 'cut' || fault?.kind === 'end' || fault?.kind === 'mute' ? fault : undefined;
  let left = breaks?.afterBytes ?? Number.POSITIVE_INFINITY;
  if (breaks?.kind === 'mute' && left === 0) muted.add(answer);
  from.on('data', (bytes: Buffer) => {
    if (muted.has(answer)) return;
    answer.write(bytes.subarray(0, left));
    left -= bytes.length;
    if (left > 0) return;
    if (breaks?.kind === 'mute') {
      muted.add(answer);
      return;
    }
    from.destroy();
    if (breaks?.kind === 'end') answer.end();
    else answer.destroy();
  });
  from.on('end', () => {
    if (!muted.has(answer)) answer.end();
  });
  from.on('error', () => answer.destroy());
}
