import { randomBytes } from 'node:crypto';
import type { ApiClient } from './client.ts';
import type { Clock } from './clock.ts';
import { apiVersionOf, type KubeObject, pathOf, type Resource } from './kube-object.ts';
import { wireMicroTime } from './wire-time.ts';

const EVENT: Resource = {
  group: 'events.k8s.io',
  version: 'v1',
  plural: 'events',
  kind: 'Event',
  namespaced: true,
};

export interface EventOptions {
  readonly client: ApiClient;
  readonly clock: Clock;
  readonly controller: string;
  readonly instance: string;
  readonly onProblem?: (error: unknown) => void;
}

export interface Happening {
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  /** What was done, as a verb: Provision, Schedule, Drop. */
  readonly action: string;
  readonly note: string;
}

/** What happens again to one object belongs to one series until it was not seen for so long. */
const SERIES_MS = 10 * 60_000;
/** How often a series that goes on says so. */
const REPEAT_MS = 60_000;
/** Per object: ten at once, then one every ten seconds. What is more is left out, never queued. */
const BURST = 10;
const REFILL_MS = 10_000;

/** The API server takes no longer one, and counts bytes. */
const LONGEST_NOTE = 1024;

/** An Event that was sent, and how often its happening was seen since. */
interface Told {
  readonly path: string;
  count: number;
  lastAt: number;
  lastTime: string;
  /** Ends the wait for the next word on the series; undefined while there is none. */
  cancel: (() => void) | undefined;
}

/** Tells what happened, and of what goes on happening how often. It never fails its caller: an Event is news, not state. */
export class EventRecorder {
  readonly #options: EventOptions;
  /** The least lately seen first. */
  readonly #told = new Map<string, Told>();
  readonly #buckets = new Map<string, { tokens: number; at: number }>();
  readonly #sending = new Set<Promise<void>>();

  constructor(options: EventOptions) {
    this.#options = options;
  }

  record(resource: Resource, object: KubeObject, happening: Happening): void {
    const { uid = '', name, namespace = 'default' } = object.metadata;
    const { clock } = this.#options;
    const sameAs = [uid, happening.reason, happening.note].join('\0');
    const now = clock.now();
    this.#forget(now);
    const known = this.#told.get(sameAs);
    if (known) {
      this.#told.delete(sameAs);
      this.#told.set(sameAs, known);
      known.count += 1;
      known.lastAt = now;
      known.lastTime = wireMicroTime();
      known.cancel ??= clock.after(REPEAT_MS, () => this.#repeat(known));
      return;
    }
    if (!this.#spend(uid, now)) return;
    const event = `${name}.${randomBytes(8).toString('hex')}`;
    const path = pathOf(EVENT, namespace, event);
    this.#told.set(sameAs, { path, count: 1, lastAt: now, lastTime: '', cancel: undefined });
    this.#track(
      this.#send(resource, object, event, happening).catch((error: unknown) => {
        this.#told.get(sameAs)?.cancel?.();
        this.#told.delete(sameAs);
        this.#options.onProblem?.(error);
      }),
    );
  }

  /** How much is kept in memory of what was told. */
  get remembered(): number {
    return this.#told.size + this.#buckets.size;
  }

  /** Resolves when all that was recorded is sent or given up. */
  async flush(): Promise<void> {
    await Promise.all(this.#sending);
    for (const told of this.#told.values()) if (told.cancel) this.#repeat(told);
    await Promise.all(this.#sending);
  }

  #repeat(told: Told): void {
    told.cancel?.();
    told.cancel = undefined;
    const series = { count: told.count, lastObservedTime: told.lastTime };
    const patched = this.#options.client.call({
      method: 'PATCH',
      path: told.path,
      contentType: 'application/merge-patch+json',
      body: { series },
    });
    this.#track(patched.then(() => {}).catch((error: unknown) => this.#options.onProblem?.(error)));
  }

  #track(sending: Promise<void>): void {
    this.#sending.add(sending);
    void sending.finally(() => this.#sending.delete(sending));
  }

  async #send(resource: Resource, object: KubeObject, event: string, happening: Happening): Promise<void> {
    const { name, namespace = 'default', uid, resourceVersion } = object.metadata;
    await this.#options.client.call({
      method: 'POST',
      path: pathOf(EVENT, namespace),
      body: {
        apiVersion: apiVersionOf(EVENT),
        kind: EVENT.kind,
        metadata: { name: event, namespace },
        eventTime: wireMicroTime(),
        reportingController: this.#options.controller,
        reportingInstance: this.#options.instance,
        action: happening.action,
        reason: happening.reason,
        type: happening.type,
        note: noteOf(happening),
        regarding: {
          apiVersion: apiVersionOf(resource),
          kind: resource.kind,
          name,
          namespace,
          uid,
          resourceVersion,
        },
      },
    });
  }

  #spend(uid: string, now: number): boolean {
    const bucket = this.#buckets.get(uid) ?? { tokens: BURST, at: now };
    const tokens = Math.min(BURST, bucket.tokens + (now - bucket.at) / REFILL_MS);
    // The least lately used first, so that forgetting stops at the first that is fresh.
    this.#buckets.delete(uid);
    this.#buckets.set(uid, { tokens: tokens < 1 ? tokens : tokens - 1, at: now });
    return tokens >= 1;
  }

  #forget(now: number): void {
    for (const [key, { lastAt, cancel }] of this.#told) {
      if (now - lastAt < SERIES_MS) break;
      if (!cancel) this.#told.delete(key);
    }
    for (const [uid, { at }] of this.#buckets) {
      if (now - at < BURST * REFILL_MS) break;
      this.#buckets.delete(uid);
    }
  }
}

/** Cut where it is too long, and never inside a character. */
function noteOf({ note }: Happening): string {
  const whole = note.toWellFormed();
  if (Buffer.byteLength(whole) <= LONGEST_NOTE) return whole;
  const end = '…';
  const room = new Uint8Array(LONGEST_NOTE - Buffer.byteLength(end));
  return whole.slice(0, new TextEncoder().encodeInto(whole, room).read) + end;
}
