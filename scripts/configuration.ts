/** docs/configuration.md, made from the schemas by which each program reads its environment. */
import { schema as databaseBroker } from '../brokers/db/config.ts';
import { schema as egressGateway } from '../brokers/egress/config.ts';
import { schema as health } from '../brokers/kit/service/health.ts';
import { schema as objectStoreBackup } from '../brokers/objectstore/backup/config.ts';
import { schema as objectStoreBroker } from '../brokers/objectstore/config.ts';
import { schema as console } from '../console/config.ts';
import { schema as stateBackup } from '../operator/backup/options.ts';
import { schema as operator } from '../operator/config.ts';
import { schema as keys } from '../operator/keys/options.ts';
import { schema as selfTest } from '../operator/selftest/options.ts';

/** What is asked of zod about one variable. */
interface Variable {
  readonly description?: string | undefined;
  safeParse(value: unknown): { readonly success: boolean; readonly data?: unknown };
  toJSONSchema(options: { io: 'input'; unrepresentable: 'any' }): object;
}

export interface Program {
  readonly title: string;
  readonly source: string;
  readonly variables: Readonly<Record<string, Variable>>;
}

const PROGRAMS: readonly Program[] = [
  { title: 'Operator', source: 'operator/config.ts', variables: operator.shape },
  { title: 'Database broker', source: 'brokers/db/config.ts', variables: databaseBroker.shape },
  {
    title: 'Object-storage broker',
    source: 'brokers/objectstore/config.ts',
    variables: objectStoreBroker.shape,
  },
  {
    title: "Backup of the Space's bucket",
    source: 'brokers/objectstore/backup/config.ts',
    variables: objectStoreBackup.shape,
  },
  { title: 'Egress gateway', source: 'brokers/egress/config.ts', variables: egressGateway.shape },
  { title: 'Console', source: 'console/config.ts', variables: console.shape },
  {
    title: 'Health checks of the brokers and the gateway',
    source: 'brokers/kit/service/health.ts',
    variables: health.shape,
  },
  { title: 'Keys program', source: 'operator/keys/options.ts', variables: keys.shape },
  {
    title: "Backup of the Space's state",
    source: 'operator/backup/options.ts',
    variables: stateBackup.shape,
  },
  { title: 'Test of the release', source: 'operator/selftest/options.ts', variables: selfTest.shape },
];

const HEAD = `# Configuration

<!-- Generated from the schemas of each program (npm run generate). -->

The environment variables of each program, which the chart sets from [its values](chart.md). A program does not start if a required variable is missing
or a value is out of its bounds; its error names the variable. The value of a variable that ends in \`_FILE\` is a path in the container.
`;

/** Called by `scripts/generate.ts`. */
export function generated(): readonly { readonly path: string; readonly text: string }[] {
  return [{ path: 'docs/configuration.md', text: [HEAD, ...PROGRAMS.map(section)].join('\n') }];
}

/** Throws for a variable that has no sentence. */
export function section({ title, source, variables }: Program): string {
  const rows = Object.entries(variables).map(([name, variable]) => row(source, name, variable));
  const head = ['| Variable | Default | Bounds | Meaning |', '| --- | --- | --- | --- |'];
  return [`## ${title}`, '', `Read by [${source}](../${source}).`, '', ...head, ...rows, ''].join('\n');
}

function row(source: string, name: string, variable: Variable): string {
  const sentence = variable.description ?? '';
  if (!/^\S.*\.$/.test(sentence)) throw new Error(`${name} of ${source} has no sentence that describes it`);
  return `| \`${name}\` | ${defaultOf(variable)} | ${boundsOf(variable)} | ${inCell(sentence)} |`;
}

interface Input {
  readonly default?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly format?: string;
  readonly enum?: readonly string[];
}

const inputOf = (variable: Variable): Input => variable.toJSONSchema({ io: 'input', unrepresentable: 'any' });

function defaultOf(variable: Variable): string {
  const unset = variable.safeParse(undefined);
  if (!unset.success) return '**required**';
  // The parsed default may have another form than the text that somebody would write.
  const value = inputOf(variable).default ?? unset.data;
  return value === undefined || value === '' ? '' : code(String(value));
}

function boundsOf(variable: Variable): string {
  const input = inputOf(variable);
  if (typeof variable.safeParse(undefined).data === 'boolean') return '`true`, `false`';
  if (input.enum !== undefined) return input.enum.map(code).join(', ');
  if (input.minimum !== undefined || input.maximum !== undefined)
    return `${input.minimum ?? ''} to ${input.maximum ?? ''}`;
  if (input.format === 'uri') return 'a URL';
  const longest = input.maxLength === undefined ? [] : [`at most ${input.maxLength} characters`];
  return [...(input.pattern === undefined ? [] : [code(input.pattern)]), ...longest].join(', ');
}

const inCell = (text: string) => text.replaceAll('|', '\\|');
const code = (text: string) => `\`${inCell(text)}\``;
