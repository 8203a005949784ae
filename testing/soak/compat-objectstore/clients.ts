import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { RCLONE } from '../../../bench/objectstore/contestants.ts';
import { keysOf, type S3Keys } from '../../../brokers/objectstore/api/s3/testing/clients.ts';
import { newAssistant } from '../../../brokers/objectstore/testing/assistant.ts';
import type { TestBroker } from '../../../brokers/objectstore/testing/broker.ts';
import { ensureBuilt } from '../../../e2e/cluster/builds/go.ts';
import type { Outcome } from '../outcome.ts';
import { withAwsCli } from './awscli.ts';
import { withBoto3 } from './boto3.ts';
import { withPython } from './python.ts';
import { withRclone } from './rclone/run.ts';
import { withRestic } from './restic.ts';
import { withS3cmd } from './s3cmd.ts';
import { withS3fs } from './s3fs.ts';
import { withGo, withJava } from './sdks.ts';

/** An unmodified client of another project. */
export interface Client {
  readonly name: string;
  /** Undefined if the machine's Debian decides it. */
  readonly version: string | undefined;
  /** Runs its cases as an Assistant of its own. */
  play(setting: Setting): Promise<readonly Outcome[] | Played>;
}

interface Played {
  readonly version: string;
  readonly outcomes: readonly Outcome[];
}

export interface Setting {
  readonly broker: TestBroker;
  readonly url: string;
  readonly directory: string;
  keys(): Promise<S3Keys>;
}

export const settingOf = (broker: TestBroker, directory: string): Setting => ({
  broker,
  url: broker.dataUrl,
  directory,
  keys: async () => keysOf(await newAssistant(broker)),
});

const python = (name: string, script: string, pinned: string): Client => ({
  name,
  version: pinned.split('==')[1] ?? '',
  play: async ({ url, keys }) => withPython(name, script, pinned, url, await keys()),
});

const BOTO3 = 'boto3[crt]==1.44.5';
const S3CMD = 's3cmd==2.4.0';
const AWS_CLI = 'awscli==1.46.3';

export const CLIENTS: readonly Client[] = [
  { name: 'boto3', version: BOTO3.split('==')[1] ?? '', play: ({ broker }) => withBoto3(BOTO3, broker) },
  {
    name: 'AWS CLI',
    version: AWS_CLI.split('==')[1] ?? '',
    play: async ({ url, directory, keys }) => withAwsCli(AWS_CLI, directory, url, await keys()),
  },
  {
    name: 'AWS SDK for Go',
    version: pinnedIn('go/go.mod', /service\/s3 v(\S+)/),
    play: async ({ url, directory, keys }) => withGo(directory, url, await keys()),
  },
  {
    name: 'AWS SDK for Java',
    version: pinnedIn('java/pom.xml', /<artifactId>s3<\/artifactId>\s*<version>([^<]+)/),
    play: async ({ url, directory, keys }) => withJava(directory, url, await keys()),
  },
  python('pyarrow', 'pyarrow_cases.py', 'pyarrow==26.0.1'),
  python('fsspec', 'fsspec_cases.py', 's3fs==2026.9.0'),
  python('minio-py', 'minio_cases.py', 'minio==7.2.20'),
  {
    name: 'rclone',
    version: pinnedIn('../../../e2e/cluster/modules/rclone/go.mod', /rclone v(\S+)/),
    play: async ({ url, directory, keys }) => {
      const program = join(await ensureBuilt(RCLONE, { log: join(directory, 'build.log') }), 'rclone');
      return withRclone(program, directory, url, await keys());
    },
  },
  {
    name: 's3cmd',
    version: S3CMD.split('==')[1] ?? '',
    play: async ({ url, directory, keys }) => withS3cmd(S3CMD, directory, url, await keys()),
  },
  {
    name: 'restic',
    version: undefined,
    play: async ({ url, directory, keys }) => withRestic(directory, url, await keys()),
  },
  {
    name: 's3fs-fuse',
    version: undefined,
    play: async ({ url, directory, keys }) => withS3fs(directory, url, await keys()),
  },
];

function pinnedIn(file: string, pattern: RegExp): string {
  const text = readFileSync(new URL(`./${file}`, import.meta.url), 'utf8');
  return pattern.exec(text)?.[1] ?? 'unknown';
}
