/** The options of a command. Who mistypes one reads which, and how the command is used. */
import { type ParseArgsConfig, parseArgs } from 'node:util';

/** A command line that is not understood ends the process with 2, before anything is done. */
export function commandLine<const Config extends ParseArgsConfig>(
  usage: string,
  config: Config,
): ReturnType<typeof parseArgs<Config>> {
  try {
    return parseArgs(config);
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    console.error(usage);
    process.exit(2);
  }
}
