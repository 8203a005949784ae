import { parseArgs } from 'node:util';
import { manifestSchema } from '../derive/schemas.ts';
import { newPowers } from '../diff/powers.ts';
import { printable } from '../parse/error.ts';
import { type FileJudgement, judgeFile } from '../parse/file.ts';
import type { Manifest } from '../rules/manifest.ts';
import { ruleAt, ruleText } from './rule-text.ts';
import { starter } from './starter.ts';

/** The command's input and output. */
export interface CommandIo {
  out(text: string): void;
  err(text: string): void;
  /** The bytes of a file; `-` is standard input. */
  read(file: string): Promise<Uint8Array>;
  /** Writes a file that does not exist yet; if that fails, there is none. */
  create(file: string, text: string): Promise<void>;
  /** Removes a file that this command has created. */
  remove(file: string): Promise<void>;
}

/** 0: all is valid; 1: something is not; 2: the command was wrong, or a file could not be read. */
export type ExitCode = 0 | 1 | 2;

const USAGE = `usage: assistant-manifest COMMAND

  validate [--json] [--storable] FILE…
                             judge manifests, Capsules and Assistants in JSON or YAML (- is standard input);
                             with --storable, more than a cluster can store is an error
  schema                     print the JSON Schema of a manifest
  init [FILE]                write a starter (manifest.yaml) and the schema beside it
  explain POINTER            say what may stand at a place, such as /platform/id
  diff [--exit-code] OLD NEW say what NEW may do that OLD could not

Ends with 0 when all is valid, 1 when something is not, 2 when the command is wrong or a file cannot be read.
diff --exit-code ends with 1 when NEW may do more.
`;

/** The command was called wrongly, or a file cannot be read. */
class UsageError extends Error {}

type Command = (args: readonly string[], io: CommandIo) => Promise<ExitCode>;
const COMMANDS: Readonly<Record<string, Command>> = { validate, schema, init, explain, diff };

/** Runs the command line and says how it ended; nothing is thrown. */
export async function run(args: readonly string[], io: CommandIo): Promise<ExitCode> {
  const [name = '', ...rest] = args;
  if (name === '--help' || name === '-h' || name === 'help') {
    io.out(USAGE);
    return 0;
  }
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  try {
    if (command === undefined) throw new UsageError(USAGE);
    return await command(rest, io);
  } catch (error) {
    // Any other error is a defect, or wrong options in the words of `parseArgs`.
    io.err(`${error instanceof Error ? error.message : error}\n`);
    return 2;
  }
}

async function validate(args: readonly string[], io: CommandIo): Promise<ExitCode> {
  const flag = { type: 'boolean', default: false } as const;
  const options = { json: flag, storable: flag };
  const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true });
  if (positionals.length === 0)
    throw new UsageError('validate: name at least one file, or - for standard input');
  onlyOneInput('validate', positionals);
  let code: ExitCode = 0;
  for (const file of positionals) {
    let judgement: FileJudgement;
    try {
      judgement = judgeFile(await io.read(file), file);
      if (values.storable) judgement = { ...judgement, errors: [...judgement.errors, ...judgement.tooLarge] };
    } catch (error) {
      io.err(`${printable(file)}: ${unreadable(error)}\n`);
      code = 2;
      continue;
    }
    io.out(values.json ? jsonLine(file, judgement) : report(file, judgement));
    if (judgement.errors.length > 0 && code === 0) code = 1;
  }
  return code;
}

function jsonLine(file: string, { errors, tooLarge }: FileJudgement): string {
  const plain = errors.map(({ pointer, rule, message }) => ({ pointer, rule, message }));
  const valid = errors.length === 0;
  return `${JSON.stringify({ file, valid, storable: valid && tooLarge.length === 0, errors: plain })}\n`;
}

function report(file: string, { errors, tooLarge }: FileJudgement): string {
  const name = printable(file);
  if (errors.length === 0) {
    const notes = tooLarge.map(
      ({ pointer, message }) => `, but no cluster stores it: ${printable(pointer) || '/'} ${message}`,
    );
    return `${name}: valid${notes[0] ?? ''}\n`;
  }
  const lines = errors.map(({ pointer, rule, message, position }) => {
    const place = position === undefined ? '' : `:${position.line}:${position.column}`;
    return `${name}${place}: ${printable(pointer) || '/'} ${message} [${rule}]`;
  });
  return `${lines.join('\n')}\n${name}: ${errors.length} ${errors.length === 1 ? 'error' : 'errors'}\n`;
}

async function schema(args: readonly string[], io: CommandIo): Promise<ExitCode> {
  if (args.length > 0) throw new UsageError('schema: takes no arguments');
  io.out(`${JSON.stringify(manifestSchema(), null, 2)}\n`);
  return 0;
}

async function init(args: readonly string[], io: CommandIo): Promise<ExitCode> {
  const [file = 'manifest.yaml', ...more] = args;
  if (more.length > 0 || file.startsWith('-')) throw new UsageError('init: takes one file name');
  const schemaName = file.replace(/\.[^./]*$/, '').concat('.schema.json');
  const texts = [
    [file, starter(`./${schemaName.split('/').at(-1)}`)],
    [schemaName, `${JSON.stringify(manifestSchema(), null, 2)}\n`],
  ] as const;
  const created: string[] = [];
  for (const [name, text] of texts) {
    try {
      await io.create(name, text);
      created.push(name);
    } catch (error) {
      for (const one of created) await io.remove(one);
      throw new UsageError(`${printable(name)}: ${unreadable(error)}`, { cause: error });
    }
  }
  io.out(`wrote ${printable(file)} and ${printable(schemaName)}\n`);
  return 0;
}

async function explain(args: readonly string[], io: CommandIo): Promise<ExitCode> {
  const [pointer, ...more] = args;
  if (pointer === undefined || more.length > 0)
    throw new UsageError('explain: name one pointer, such as /platform/id');
  const rule = ruleAt(pointer);
  if (rule === undefined || (pointer !== '' && !pointer.startsWith('/'))) {
    throw new UsageError(`explain: a manifest has nothing at ${printable(pointer)}`);
  }
  io.out(ruleText(pointer, rule));
  return 0;
}

async function diff(args: readonly string[], io: CommandIo): Promise<ExitCode> {
  const options = { 'exit-code': { type: 'boolean', default: false } } as const;
  const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true });
  const [old, next, ...more] = positionals;
  if (old === undefined || next === undefined || more.length > 0)
    throw new UsageError('diff: name an old and a new file');
  onlyOneInput('diff', positionals);
  const [before, after] = [await manifestIn(old, io), await manifestIn(next, io)];
  if (before === undefined || after === undefined) return 1;
  const powers = newPowers(before, after);
  const title = `${after.platform.id} ${before.platform.version} → ${after.platform.version}`;
  if (powers.length === 0) io.out(`${title}: may do nothing that it could not do before\n`);
  else {
    const lines = powers.map(({ pointer, says }) => `  + ${printable(says)}  (${printable(pointer)})`);
    io.out(`${title}: may do more than before\n${lines.join('\n')}\n`);
  }
  return values['exit-code'] && powers.length > 0 ? 1 : 0;
}

/** Standard input is at its end after it was read: a second time it would be an empty file. */
function onlyOneInput(command: string, files: readonly string[]): void {
  if (files.filter((file) => file === '-').length > 1)
    throw new UsageError(`${command}: name - once, since standard input can be read only once`);
}

/** Returns the one manifest of a valid file; the errors of an invalid one are printed. */
async function manifestIn(file: string, io: CommandIo): Promise<Manifest | undefined> {
  let bytes: Uint8Array;
  try {
    bytes = await io.read(file);
  } catch (error) {
    throw new UsageError(`${printable(file)}: ${unreadable(error)}`, { cause: error });
  }
  const judgement = judgeFile(bytes, file);
  if (judgement.errors.length > 0) {
    io.err(report(file, judgement));
    return undefined;
  }
  const [manifest, ...more] = judgement.manifests;
  if (manifest === undefined || more.length > 0)
    throw new UsageError(`${printable(file)}: must hold exactly one manifest`);
  return manifest as Manifest;
}

function unreadable(error: unknown): string {
  const { code } = error as { readonly code?: unknown };
  if (code === 'ENOENT') return 'does not exist';
  if (code === 'EEXIST') return 'exists already';
  if (code === 'EACCES') return 'may not be opened';
  if (code === 'EISDIR') return 'is a directory';
  if (code === 'ENOSPC' || code === 'EDQUOT') return 'has no room on its disk';
  return error instanceof Error ? printable(error.message) : 'cannot be read';
}
