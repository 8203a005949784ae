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

/** Flags for Helm if no pod will run: references of images that need not exist. */
export const SOME_IMAGES: readonly string[] = IMAGE_VALUES.flatMap((value) => [
  '--set',
  `${value}=${someImage(value.toLowerCase())}`,
]);

export function someImage(name: string): string {
  return `registry.test/${name}@sha256:${'0123456789abcdef'.repeat(4)}`;
}

/** Flags for Helm that enable a backup to a place that is never used. */
export const SOME_BACKUP: readonly string[] = [
  'backup.enabled=true',
  'backup.recipient=age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p',
  'backup.s3.endpoint=https://vault.example.org',
  'backup.s3.bucket=mine',
  'backup.s3.cidrs={203.0.113.7/32}',
  'existingSecrets.backupS3=backup-s3',
].flatMap((value) => ['--set', value]);
