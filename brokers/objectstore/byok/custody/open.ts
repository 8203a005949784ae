import { ConfigError, keepFile, type Logger, type Resources, type Round } from '@space/broker-kit';
import { watchKeyring } from '@space/broker-kit/custody';
import type { Connections } from '@space/broker-kit/postgres';
import type { S3Client } from '../../upstream/types.ts';
import { bucketAnchors, warnWithoutPreconditions } from './anchor-store.ts';
import { type Custody, createCustody } from './custody.ts';
import { kidsInUse, resealAll } from './reseal.ts';
import type { Alarm } from './trust.ts';

export interface CustodyParts {
  readonly keyringPath: string;
  readonly connections: Connections;
  /** The Space's own bucket. */
  readonly s3: Pick<S3Client, 'read' | 'put'>;
  readonly space: string;
  readonly log: Logger;
  readonly onAlarm: (alarm: Alarm) => void;
  readonly failpoint: (name: string) => void;
}

export interface OpenCustody {
  readonly custody: Custody;
  /** Seals everything again with the primary key. */
  readonly reseal: Round;
}

/** Opens the custody. @throws if the keyring lacks a key that something is sealed with */
export async function openCustody(parts: CustodyParts, resources: Resources): Promise<OpenCustody> {
  const { connections, log } = parts;
  // Keys that the last check found in use. A key counts as in use until a check finds nothing that is sealed with it.
  let inUse: readonly string[] = await connections.session(kidsInUse);
  const keyring = keepFile(
    resources,
    await watchKeyring(parts.keyringPath, {
      inUse: () => inUse,
      onChange: (outcome) => {
        if (outcome.ok) log.info({ primary: outcome.value.primary }, 'custody keyring changed and taken');
        else
          log.error({ err: outcome.error }, 'custody keyring changed and refused; the last good one stays');
      },
    }).catch((cause: unknown) => {
      const why = cause instanceof Error && cause.name === 'KeyringError' ? cause.message : 'cannot be read';
      throw new ConfigError(`CUSTODY_KEYRING_FILE: ${why}`, { cause });
    }),
  );
  const custody = createCustody({ ...parts, keyring, anchors: bucketAnchors(parts.s3, parts.space) });
  let askedBucket = false;
  return {
    custody,
    reseal: {
      name: 'custody',
      gapMs: 60_000,
      run: async () => {
        if (!askedBucket) await warnWithoutPreconditions(parts.s3, log);
        askedBucket = true;
        // Data that is written meanwhile has the primary key, which cannot be removed from the keyring.
        inUse = await resealAll(custody, connections, log);
      },
    },
  };
}
