import { resolve } from 'node:path';

export const CHART = resolve(import.meta.dirname, '../../charts/space');

/** The values that name the images of a Space. */
export const IMAGE_VALUES = [
  'operator.image',
  'sandbox.attester.image',
  'dbBroker.image',
  'postgres.image',
  'egress.image',
  'objectStore.image',
  's3.image',
  'console.image',
] as const;

/** Flags for Helm where no pod is to run: images that there need not be. */
export const SOME_IMAGES: readonly string[] = IMAGE_VALUES.flatMap((value) => [
  '--set',
  `${value}=${someImage(value.toLowerCase())}`,
]);

export function someImage(name: string): string {
  return `registry.test/${name}@sha256:${'0123456789abcdef'.repeat(4)}`;
}
