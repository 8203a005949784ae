import { Decipheriv, Hmac } from 'node:crypto';

/** Every buffer that is made while it is on, so that a test can look whether a secret was left in one. */
export interface KeptBuffers {
  /** How many of them hold the text now. */
  holding(text: string): number;
  readonly count: number;
  stop(): void;
}

/** Makers of buffers that code which handles secrets uses. */
const MAKERS = [
  [Buffer, 'from'],
  [Buffer, 'alloc'],
  [Buffer, 'allocUnsafe'],
  [Buffer, 'allocUnsafeSlow'],
  [Buffer, 'concat'],
  [Decipheriv.prototype, 'update'],
  [Decipheriv.prototype, 'final'],
  [Hmac.prototype, 'digest'],
] as const;

type Make = (...given: unknown[]) => unknown;

export function keepBuffers(): KeptBuffers {
  const kept = new Set<Buffer>();
  const restore = MAKERS.map(([holder, name]) => {
    const owner = holder as unknown as Record<string, Make>;
    const make = owner[name] as Make;
    owner[name] = function (this: unknown, ...given: unknown[]) {
      const made = Reflect.apply(make, this, given);
      if (Buffer.isBuffer(made)) kept.add(made);
      return made;
    };
    return () => {
      owner[name] = make;
    };
  });
  return {
    holding: (text) => {
      const bytes = new TextEncoder().encode(text);
      return [...kept].filter((one) => one.includes(bytes)).length;
    },
    get count() {
      return kept.size;
    },
    stop: () => {
      for (const back of restore) back();
    },
  };
}
