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

/** Repetitions for one object belong to one series until there was none for this long. */
const SERIES_MS = 10 * 60_000;
/** The interval in which a continuing series is reported. */
const REPEAT_MS = 60_000;
/** Per object, ten Events at once, then one every ten seconds. Further ones are dropped, not queued. */
const BURST = 10;
const REFILL_MS = 10_000;

/** The API server's limits of a note, in bytes, and of a name. */
const LONGEST_NOTE = 1024;
const LONGEST_NAME = 253;

/** An Event that was sent, and the count of its repetitions since. */
interface SentEvent {
  readonly path: string;
  count: number;
  lastAt: number;
  lastTime: string;
  /** Cancels the next report of the series; undefined while none is due. */
  cancel: (() => void) | undefined;
}

/** Records Events, and counts repetitions as series. */
export class EventRecorder {
  readonly #options: EventOptions;
  /** The least recently seen one is first. */
  readonly #sent = new Map<string, SentEvent>();
  readonly #buckets = new Map<string, { tokens: number; at: number }>();
  readonly #sending = new Set<Promise<void>>();

  constructor(options: EventOptions) {
    this.#options = options;
  }

  /** Never throws, since an Event is not state. */
  record(resource: Resource, object: KubeObject, happening: Happening): void {
    const now = this.#options.clock.now();
    this.#forget(now);
    if (this.#isRepeated(object, happening, now) || !this.#spend(object.metadata.uid ?? '', now)) return;
    this.#track(
      this.#begin(resource, object, happening, { now }).catch((error: unknown) =>
        this.#options.onProblem?.(error),
      ),
    );
  }

  /**
   * Resolves when the Event is stored. It is for what must be known, before it is done: no limit drops it, and whoever
   * does it fails with it.
   */
  async announce(
    resource: Resource,
    object: KubeObject,
    happening: Happening,
    signal?: AbortSignal,
  ): Promise<void> {
    const now = this.#options.clock.now();
    this.#forget(now);
    if (this.#isRepeated(object, happening, now)) return;
    await this.#begin(resource, object, happening, { now, signal });
  }

  /** Counts it in its series, if there is one. */
  #isRepeated({ metadata }: KubeObject, happening: Happening, now: number): boolean {
    const sameAs = keyOf(metadata.uid, happening);
    const known = this.#sent.get(sameAs);
    if (!known) return false;
    this.#sent.delete(sameAs);
    this.#sent.set(sameAs, known);
    known.count += 1;
    known.lastAt = now;
    known.lastTime = wireMicroTime();
    known.cancel ??= this.#options.clock.after(REPEAT_MS, () => this.#repeat(known));
    return true;
  }

  async #begin(
    resource: Resource,
    object: KubeObject,
    happening: Happening,
    { now, signal }: { readonly now: number; readonly signal?: AbortSignal | undefined },
  ): Promise<void> {
    const { uid, name, namespace = 'default' } = object.metadata;
    const sameAs = keyOf(uid, happening);
    const event = nameFor(name);
    const path = pathOf(EVENT, namespace, event);
    this.#sent.set(sameAs, { path, count: 1, lastAt: now, lastTime: '', cancel: undefined });
    try {
      await this.#send(resource, object, { event, happening, signal });
    } catch (error) {
      this.#sent.get(sameAs)?.cancel?.();
      this.#sent.delete(sameAs);
      throw error;
    }
  }

  /** The number of Events that are remembered. */
  get remembered(): number {
    return this.#sent.size + this.#buckets.size;
  }

  /** Resolves when every recorded Event is sent or dropped. */
  async flush(): Promise<void> {
    await Promise.all(this.#sending);
    for (const event of this.#sent.values()) if (event.cancel) this.#repeat(event);
    await Promise.all(this.#sending);
  }

  #repeat(event: SentEvent): void {
    event.cancel?.();
    event.cancel = undefined;
    const series = { count: event.count, lastObservedTime: event.lastTime };
    const patched = this.#options.client.call({
      method: 'PATCH',
      path: event.path,
      contentType: 'application/merge-patch+json',
      body: { series },
    });
    this.#track(patched.then(() => {}).catch((error: unknown) => this.#options.onProblem?.(error)));
  }

  #track(sending: Promise<void>): void {
    this.#sending.add(sending);
    void sending.finally(() => this.#sending.delete(sending));
  }

  async #send(
    resource: Resource,
    object: KubeObject,
    {
      event,
      happening,
      signal,
    }: {
      readonly event: string;
      readonly happening: Happening;
      readonly signal: AbortSignal | undefined;
    },
  ): Promise<void> {
    const { name, namespace = 'default', uid, resourceVersion } = object.metadata;
    await this.#options.client.call({
      method: 'POST',
      path: pathOf(EVENT, namespace),
      signal,
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
    // The least recently used one is first, so that the removal stops at the first recent one.
    this.#buckets.delete(uid);
    this.#buckets.set(uid, { tokens: tokens < 1 ? tokens : tokens - 1, at: now });
    return tokens >= 1;
  }

  #forget(now: number): void {
    for (const [key, { lastAt, cancel }] of this.#sent) {
      if (now - lastAt < SERIES_MS) break;
      if (!cancel) this.#sent.delete(key);
    }
    for (const [uid, { at }] of this.#buckets) {
      if (now - at < BURST * REFILL_MS) break;
      this.#buckets.delete(uid);
    }
  }
}

const keyOf = (uid = '', { reason, note }: Happening): string => [uid, reason, note].join('\0');

/** A name of its own that begins like the object's, as far as it has room; no part of a name ends with a hyphen. */
function nameFor(name: string): string {
  const end = `.${randomBytes(8).toString('hex')}`;
  return `${name.slice(0, LONGEST_NAME - end.length).replace(/[.-]+$/, '')}${end}`;
}

/** The note, cut to its greatest length between two characters. */
function noteOf({ note }: Happening): string {
  const whole = note.toWellFormed();
  if (Buffer.byteLength(whole) <= LONGEST_NOTE) return whole;
  const end = '…';
  const room = new Uint8Array(LONGEST_NOTE - Buffer.byteLength(end));
  return whole.slice(0, new TextEncoder().encodeInto(whole, room).read) + end;
}
