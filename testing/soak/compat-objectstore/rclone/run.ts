import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { S3Keys } from '../../../../brokers/objectstore/api/s3/testing/clients.ts';
import { type Outcome, outcomeOf } from '../../outcome.ts';
import { CHANGES } from './changes.ts';
import type { Fixture } from './fixture.ts';
import { LIMITS } from './limits.ts';
import { LISTING } from './listing.ts';
import { TRANSFERS } from './transfers.ts';

/** Each case has a fixture of its own, so that several can run at once. */
const CASES = { ...LISTING, ...TRANSFERS, ...CHANGES, ...LIMITS };

const AT_ONCE = 4;

export async function withRclone(
  program: string,
  directory: string,
  url: string,
  keys: S3Keys,
): Promise<readonly Outcome[]> {
  const remote: Fixture['remote'] = (other = {}) => {
    const { AccessKeyId, SecretAccessKey } = { ...keys, ...other };
    return `:s3,provider=Other,endpoint="${url}",access_key_id=${AccessKeyId},secret_access_key=${SecretAccessKey}:`;
  };
  const run = async (args: readonly string[], input: string | Buffer = '') => {
    const child = spawn(
      program,
      [...args, '--config', '/dev/null', '--retries', '1', '--low-level-retries', '1'],
      {
        env: { PATH: process.env['PATH'], HOME: directory },
      },
    );
    child.stdin.on('error', () => undefined).end(input);
    const [stdout, stderr, [code]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close'),
    ]);
    return { stdout, stderr, good: code === 0 };
  };
  const waiting = Object.entries(CASES).map(([name, act], i) => async () => {
    const local = join(directory, `rclone-${i}`);
    mkdirSync(local);
    const fixture: Fixture = {
      rclone: async (args, input) => {
        const { stdout, stderr, good } = await run(args, input);
        if (!good) throw new Error(`rclone ${args[0]}: ${stderr.slice(-300)}`);
        return stdout;
      },
      fails: async (args) => {
        const { stderr, good } = await run(args);
        if (good) throw new Error(`rclone ${args[0]} ended well`);
        return stderr;
      },
      local,
      data: `${remote()}data/${i}`,
      shared: `${remote()}shared/${i}`,
      remote,
    };
    return outcomeOf('rclone', name, () => act(fixture));
  });
  const outcomes: Outcome[] = [];
  const next = waiting.values();
  const worker = async () => {
    for (const play of next) outcomes.push(await play());
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return outcomes;
}
