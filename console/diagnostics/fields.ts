import * as z from 'zod';

/**
 * The permitted fields of each object; all others are left out. None of them contains free text: no message, note,
 * annotation, environment, argument or value.
 */

/** A name, a reason, a version or an image: one word of limited length. */
const word = z.string().regex(/^[!-~]{1,512}$/);
const time = z.string().regex(/^[0-9TZ:.+-]{1,40}$/);
const number = z.number();
/** A value of another form is left out, and the rest is kept. */
const maybe = <T extends z.ZodType>(type: T) => type.optional().catch(undefined);
const list = <T extends z.ZodType>(item: T) => z.array(item).optional().catch(undefined);

const metadata = z.object({
  name: word,
  namespace: maybe(word),
  uid: maybe(word),
  generation: maybe(number),
  creationTimestamp: maybe(time),
  deletionTimestamp: maybe(time),
  labels: maybe(
    z.object({
      'platform.space/component': maybe(word),
      'platform.space/capsule': maybe(word),
      'platform.space/assistant': maybe(word),
      'app.kubernetes.io/version': maybe(word),
      'helm.sh/chart': maybe(word),
    }),
  ),
});
const conditions = list(
  z.object({
    type: word,
    status: word,
    reason: maybe(word),
    observedGeneration: maybe(number),
    lastTransitionTime: maybe(time),
  }),
);
const flag = maybe(z.boolean());
const quantities = maybe(
  z.record(z.string().regex(/^[a-z0-9./-]{1,100}$/), z.string().regex(/^[0-9.a-zA-Z-]{1,40}$/)),
);
const counted = maybe(z.object({ total: number, ready: number }));

export const capsule = z.object({
  metadata,
  spec: maybe(z.object({ suspend: flag, approval: maybe(word), deletionPolicy: maybe(word) })),
  status: maybe(
    z.object({
      observedGeneration: maybe(number),
      namespace: maybe(word),
      assistants: counted,
      usage: quantities,
      conditions,
    }),
  ),
});

export const assistant = z.object({
  metadata,
  spec: maybe(
    z.object({
      capsule: maybe(word),
      suspend: flag,
      image: maybe(word),
      manifest: maybe(
        z.object({
          platform: maybe(z.object({ id: maybe(word), version: maybe(word) })),
          network: maybe(z.object({ allowed_hosts: list(word) })),
        }),
      ),
    }),
  ),
  status: maybe(z.object({ observedGeneration: maybe(number), conditions })),
});

export const event = z.object({
  metadata,
  type: maybe(word),
  reason: maybe(word),
  eventTime: maybe(time),
  deprecatedCount: maybe(number),
  reportingController: maybe(word),
  regarding: maybe(z.object({ kind: maybe(word), namespace: maybe(word), name: maybe(word) })),
});

const state = maybe(
  z.object({
    running: maybe(z.object({ startedAt: maybe(time) })),
    waiting: maybe(z.object({ reason: maybe(word) })),
    terminated: maybe(
      z.object({
        reason: maybe(word),
        exitCode: maybe(number),
        signal: maybe(number),
        startedAt: maybe(time),
        finishedAt: maybe(time),
      }),
    ),
  }),
);
const containers = list(
  z.object({
    name: word,
    image: maybe(word),
    ready: flag,
    started: flag,
    restartCount: maybe(number),
    state,
    lastState: state,
  }),
);
export const pod = z.object({
  metadata,
  spec: maybe(z.object({ nodeName: maybe(word), runtimeClassName: maybe(word) })),
  status: maybe(
    z.object({
      phase: maybe(word),
      reason: maybe(word),
      startTime: maybe(time),
      conditions,
      initContainerStatuses: containers,
      containerStatuses: containers,
    }),
  ),
});

export const deployment = z.object({
  metadata,
  spec: maybe(z.object({ replicas: maybe(number) })),
  status: maybe(
    z.object({
      observedGeneration: maybe(number),
      replicas: maybe(number),
      readyReplicas: maybe(number),
      updatedReplicas: maybe(number),
      conditions,
    }),
  ),
});

export const node = z.object({
  metadata,
  status: maybe(
    z.object({
      nodeInfo: maybe(
        z.object({
          kubeletVersion: maybe(word),
          kernelVersion: maybe(word),
          architecture: maybe(word),
          containerRuntimeVersion: maybe(word),
        }),
      ),
      allocatable: quantities,
      runtimeHandlers: list(z.object({ name: maybe(word) })),
      conditions,
    }),
  ),
});

export const runtimeClass = z.object({ metadata, handler: maybe(word) });
export const quota = z.object({ metadata, status: maybe(z.object({ hard: quantities, used: quantities })) });
/** For objects of which only the existence matters. */
export const nameAlone = z.object({ metadata });
export const version = z.object({ gitVersion: maybe(word), platform: maybe(word) });
