import type { Logger } from './log.ts';
import { type WatchedFile, watchFile } from './watched.ts';

/** What a process keeps open until it ends, including mounted files; everything is closed in reverse order. */
export interface Resources {
  readonly closers: (() => unknown)[];
  readonly files: { refresh(): Promise<void> }[];
}

export function keepFile<File extends { refresh(): Promise<void>; close(): void }>(
  resources: Resources,
  file: File,
): File {
  resources.closers.push(() => file.close());
  resources.files.push(file);
  return file;
}

/** Closes everything, even if one part fails to close. */
export async function closeAll({ closers }: Resources): Promise<void> {
  for (const close of closers.toReversed()) {
    try {
      await close();
    } catch {
      // The process is ending anyway, and the connection or file with it.
    }
  }
}

/** A mounted file that is read again when it changes; each change is logged. */
export function watched<T>(
  path: string,
  parse: (text: string) => T | Promise<T>,
  log: Logger,
): Promise<WatchedFile<T>> {
  return watchFile(path, {
    parse,
    onChange: (outcome) => {
      if (outcome.ok) log.info({ file: path }, 'file changed and taken');
      else
        log.error(
          { file: path, err: outcome.error },
          'file changed and refused; the last good content stays',
        );
    },
  });
}
