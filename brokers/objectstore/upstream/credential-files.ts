import { hash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { type Logger, Secret } from '@space/broker-kit';

/** The two parts of an S3 key. */
export interface AccessKey {
  readonly id: Secret<string>;
  readonly secret: Secret<string>;
}

export interface KeyFiles {
  readonly id: string;
  readonly secret: string;
}

/** A key that follows its files. */
export interface WatchedKey {
  current(): AccessKey;
  /** Reads the files now. */
  refresh(): Promise<void>;
  close(): void;
}

export interface WatchKeyOptions {
  readonly log: Logger;
  /** Throws unless the S3 server accepts the key. */
  readonly tryOut: (key: AccessKey) => Promise<void>;
  readonly intervalMs?: number;
}

/**
 * Reads the key, and again every two seconds. A changed key is used only after the S3 server has accepted it, so that
 * neither a mistake nor a new part beside an old one stops the service.
 */
export async function watchKey(
  files: KeyFiles,
  { log, tryOut, intervalMs = 2_000 }: WatchKeyOptions,
): Promise<WatchedKey> {
  let current = await read(files);
  let complained = '';
  let looking: Promise<void> | undefined;

  async function look(): Promise<void> {
    let found = '';
    try {
      const next = await read(files);
      found = digestOf(next);
      if (found === digestOf(current)) return;
      await tryOut(next);
      current = next;
      log.info({ file: files.id }, 'S3 key changed and taken');
    } catch (error) {
      if (found !== complained)
        log.error({ file: files.id, err: error }, 'S3 key changed and refused; the last good one stays');
      complained = found;
    }
  }

  const refresh = () => {
    looking ??= look().finally(() => {
      looking = undefined;
    });
    return looking;
  };
  const timer = setInterval(() => void refresh(), intervalMs);
  timer.unref();
  return { current: () => current, refresh, close: () => clearInterval(timer) };
}

async function read({ id, secret }: KeyFiles): Promise<AccessKey> {
  const trimmed = async (path: string) => new Secret((await readFile(path, 'utf8')).trim());
  return { id: await trimmed(id), secret: await trimmed(secret) };
}

function digestOf({ id, secret }: AccessKey): string {
  return hash('sha256', `${id.reveal()}\n${secret.reveal()}`);
}
