import { randomBytes } from 'node:crypto';
import type { ApiClient } from './client.ts';
import type { Clock } from './clock.ts';
import { apiVersionOf, type KubeObject, pathOf, type Resource } from './objects.ts';

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

/** The same happening of the same object within this time is told once. */
const QUIET_MS = 10 * 60_000;
/** Per object: ten at once, then one every ten seconds. What is more is left out, never queued. */
const BURST = 10;
const REFILL_MS = 10_000;

/** Tells what happened. It never fails its caller: an Event is news, not state. */
export class EventRecorder {
  readonly #options: EventOptions;
  readonly #told = new Map<string, number>();
  readonly #buckets = new Map<string, { tokens: number; at: number }>();
  readonly #sending = new Set<Promise<void>>();

  constructor(options: EventOptions) {
    this.#options = options;
  }

  record(resource: Resource, object: KubeObject, happening: Happening): void {
    const { uid = '' } = object.metadata;
    const sameAs = [uid, happening.reason, happening.note].join('\0');
    const now = this.#options.clock.now();
    this.#forget(now);
    if (this.#told.has(sameAs) || !this.#spend(uid, now)) return;
    this.#told.set(sameAs, now);
    const sending = this.#send(resource, object, happening).catch((error: unknown) => {
      this.#told.delete(sameAs);
      this.#options.onProblem?.(error);
    });
    this.#sending.add(sending);
    void sending.finally(() => this.#sending.delete(sending));
  }

  /** Resolves when all that was recorded is sent or given up. */
  async flush(): Promise<void> {
    await Promise.all(this.#sending);
  }

  async #send(resource: Resource, object: KubeObject, happening: Happening): Promise<void> {
    const { name, namespace = 'default', uid, resourceVersion } = object.metadata;
    await this.#options.client.call({
      method: 'POST',
      path: pathOf(EVENT, namespace),
      body: {
        apiVersion: apiVersionOf(EVENT),
        kind: EVENT.kind,
        metadata: { name: `${name}.${randomBytes(8).toString('hex')}`, namespace },
        eventTime: new Date().toISOString().replace('Z', '000Z'),
        reportingController: this.#options.controller,
        reportingInstance: this.#options.instance,
        action: happening.action,
        reason: happening.reason,
        type: happening.type,
        note: happening.note.slice(0, 1000),
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
    this.#buckets.set(uid, { tokens: tokens < 1 ? tokens : tokens - 1, at: now });
    return tokens >= 1;
  }

  #forget(now: number): void {
    for (const [key, at] of this.#told) {
      if (now - at < QUIET_MS) break;
      this.#told.delete(key);
    }
    for (const [uid, { at }] of this.#buckets) {
      if (now - at < BURST * REFILL_MS) break;
      this.#buckets.delete(uid);
    }
  }
}
