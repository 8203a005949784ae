import { randomBytes } from 'node:crypto';
import { text } from 'node:stream/consumers';
import type { Audience } from '@space/contracts';
import { Secret } from '@space/contracts/secret';
import pino from 'pino';
import { ServiceError } from '../errors.ts';
import { createLogger, type Logger } from '../log.ts';
import type { Connections, Session } from '../postgres/index.ts';
import { exchangePrincipal } from '../principals/index.ts';
import { closeAll, type Resources } from '../resources.ts';
import { digestOf, isToken, newToken, type TokenDigest } from '../tokens.ts';

/** A command for administrators in the broker's container, which no route leads to. */
export interface Command<Context> {
  readonly usage: string;
  readonly about: string;
  run(
    context: Context,
    traceId: string,
    args: readonly string[],
    input: () => Promise<string>,
  ): Promise<unknown>;
}

/** The command line is wrong; the message says how it should be. */
export class UsageError extends Error {}

/** The single argument of a command that is about a Capsule. @throws UsageError */
export function onlyCapsule(args: readonly string[]): string {
  const [capsule, ...more] = args;
  if (capsule === undefined || more.length > 0) throw new UsageError('exactly one Capsule is needed');
  return capsule;
}

/** Commands that replace a lost principal of a Capsule. */
export function principalCommands<Context>(
  audience: Audience,
  /** Returns the connections to the registry that has the Capsule. */
  connectionsOf: (context: Context, capsule: string) => Connections | Promise<Connections>,
  /**
   * Called in the same transaction, with the Capsule locked, for what the service stores about a principal beside its
   * digest.
   */
  also: (
    context: Context,
    session: Session,
    capsule: string,
    principal: TokenDigest,
  ) => Promise<void> = async () => undefined,
): Readonly<Record<'replace-principal' | 'replace-principals' | 'new-principal', Command<Context>>> {
  const replace = async (context: Context, traceId: string, capsule: string, token: string) => {
    if (!isToken(token, audience))
      throw new UsageError(
        `standard input must hold one token spc_${audience}_<43 characters> (kubectl exec needs -i)`,
      );
    const principal = digestOf(new Secret(token));
    const connections = await connectionsOf(context, capsule);
    return connections.transaction(async (session) => {
      const exchanged = await exchangePrincipal(session, traceId, capsule, principal);
      await also(context, session, capsule, principal);
      return exchanged;
    });
  };
  return {
    'replace-principal': {
      usage: 'replace-principal CAPSULE < TOKEN',
      about: 'a new principal, read from standard input, for one that was lost; the old one is retired',
      run: async (context, traceId, args, input) => {
        const capsule = onlyCapsule(args);
        return replace(context, traceId, capsule, (await input()).trim());
      },
    },
    'replace-principals': {
      usage: 'replace-principals < LINES',
      about:
        'the same for many, each a line CAPSULE TOKEN; tells which are not registered, or have no principal',
      run: async (context, traceId, args, input) => {
        if (args.length > 0) throw new UsageError('Capsules and tokens are read from standard input alone');
        const lines = (await input()).split('\n').filter((line) => line !== '');
        const done = { replaced: 0, unknown: [] as string[] };
        for (const line of lines) {
          const [capsule = '', token = ''] = line.split(' ');
          try {
            await replace(context, traceId, capsule, token);
            done.replaced += 1;
          } catch (error) {
            if (!(error instanceof ServiceError && ['not_found', 'conflict'].includes(error.code)))
              throw error;
            done.unknown.push(capsule);
          }
        }
        return done;
      },
    },
    'new-principal': {
      usage: 'new-principal',
      about: 'print a new principal token, registered nowhere',
      run: async () => newToken(audience).reveal(),
    },
  };
}

/**
 * `node /app/admin.mjs COMMAND …` in a broker's container: the administrator's commands, each audited. Whoever can run
 * it in the container is authorised; no route of the broker leads here. The exit code is 0, 1 after a failure, and 2
 * for a wrong command line.
 */
export async function runAdministrator<Context>(options: {
  readonly service: string;
  readonly commands: Readonly<Record<string, Command<Context>>>;
  readonly logLevel: 'warn' | 'fatal';
  readonly open: (log: Logger, resources: Resources) => Promise<Context>;
}): Promise<void> {
  const { service, commands, logLevel, open } = options;
  const [name = '', ...args] = process.argv.slice(2);
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (command === undefined) {
    console.error('usage: node /app/admin.mjs COMMAND\n');
    for (const { usage, about } of Object.values(commands)) console.error(`  ${usage}\n      ${about}`);
    process.exitCode = 2;
    return;
  }
  const resources: Resources = { closers: [], files: [] };
  const traceId = randomBytes(16).toString('hex');
  const log = createLogger({
    service: `${service}-admin`,
    level: logLevel,
    destination: pino.destination(2),
  });
  try {
    const result = await command.run(await open(log, resources), traceId, args, () => text(process.stdin));
    console.log(typeof result === 'string' ? result : JSON.stringify(result));
  } catch (error) {
    const said = error instanceof ServiceError || error instanceof UsageError;
    console.error(said ? error.message : `${name} failed; trace ${traceId}`);
    if (!said)
      log[logLevel === 'fatal' ? 'fatal' : 'error']({ trace_id: traceId, err: error }, 'command failed');
    process.exitCode = error instanceof UsageError ? 2 : 1;
  } finally {
    await closeAll(resources);
  }
}
