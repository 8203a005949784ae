/** The options of a command. Who mistypes one reads which, and how the command is used. */
import { type ParseArgsConfig, parseArgs } from 'node:util';

/** A command line that is not understood ends the process with 2, one that asks for help with 0, before anything is done. */
export function commandLine<const Config extends ParseArgsConfig>(
  usage: string,
  config: Config,
): ReturnType<typeof parseArgs<Config>> {
  try {
    return parseArgs(config);
  } catch (error) {
    if (asksForHelp()) tellUsage(usage);
    console.error(error instanceof Error ? error.message : error);
    console.error(usage);
    process.exit(2);
  }
}

const asksForHelp = (): boolean => process.argv.slice(2).some((arg) => arg === '--help' || arg === '-h');

function tellUsage(usage: string): never {
  console.log(usage);
  process.exit(0);
}

/** For a command that passes its arguments on to another program, and so parses none of them. */
export function helpIfAsked(usage: string): void {
  if (asksForHelp()) tellUsage(usage);
}
