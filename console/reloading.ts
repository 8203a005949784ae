import { watch } from 'node:fs';
import { type Console, type ConsoleOptions, startConsole } from './service.ts';

/**
 * Runs a console that restarts after each change in the folder of style and script, since `node --watch` restarts only
 * after changes of imported files.
 */
export async function startReloading(
  options: ConsoleOptions & { readonly html: string },
): Promise<Pick<Console, 'port' | 'stop'>> {
  const { config, log, html } = options;
  let running = await startConsole(options);
  const { port } = running;
  let last: Promise<unknown> = Promise.resolve();
  let due: NodeJS.Timeout | undefined;
  const anew = async () => {
    await running.stop();
    running = await startConsole({ ...options, config: { ...config, LISTEN_PORT: port } });
  };
  const folder = watch(html, () => {
    clearTimeout(due);
    // An editor writes a file in several steps.
    due = setTimeout(() => {
      last = last.then(anew).catch((err: unknown) => log.error({ err }, 'the console did not restart'));
    }, SETTLED_MS);
  });
  return {
    port,
    async stop() {
      folder.close();
      clearTimeout(due);
      await last;
      return running.stop();
    },
  };
}

const SETTLED_MS = 50;
