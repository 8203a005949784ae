import { ConfigError, closeAll, type Logger, type Resources } from '@space/broker-kit';
import { StepError, whyUnreachable } from '@space/broker-kit/postgres';
import type { OpenServer } from '../open.ts';
import type { ServerPlan } from './config.ts';
import { type Pulse, startPulse } from './pulse.ts';
import type { DatabaseServer, ServerState } from './server.ts';

/** A server that the start does not wait for: it is opened in the background, with retries until it can be used. */
export interface FurtherServer extends DatabaseServer {
  /** Resolves after the first attempt, even a failed one; rejects if the configuration is wrong. */
  readonly tried: Promise<void>;
  stop(): Promise<void>;
}

/** Two entries of the configuration are the same server. */
export class TwinServers extends ConfigError {}

interface FurtherOptions {
  readonly plan: ServerPlan;
  readonly log: Logger;
  /** Opens the server and begins its work; if that fails, everything in the resources is closed. */
  readonly open: (resources: Resources) => Promise<OpenServer>;
  /** Called with the mounted files of an open server. */
  readonly onOpen: (files: Resources['files']) => void;
}

const AGAIN_MS = { unreachable: 2_000, unfit: 10_000 };

export function furtherServer({ plan, log, open, onOpen }: FurtherOptions): FurtherServer {
  const { name, weight, drain } = plan;
  const stopping = new AbortController();
  let held: { readonly server: OpenServer; readonly resources: Resources; readonly pulse: Pulse } | undefined;
  let failed: Exclude<ServerState, { kind: 'ready' }> = {
    kind: 'unreachable',
    why: 'it was not contacted yet',
  };

  async function attempt(): Promise<void> {
    const resources: Resources = { closers: [], files: [] };
    try {
      const server = await open(resources);
      const pulse = startPulse(() => server.context.connections.lookup.read('ask server', 'SELECT 1'));
      held = { server, resources, pulse };
      onOpen(resources.files);
      log.info('the server is used');
    } catch (error) {
      await closeAll(resources);
      const before = failed.why;
      failed = whyNot(error, name);
      if (failed.why !== before) log.error({ err: error }, `the server is not used: ${failed.why}`);
      if (error instanceof TwinServers) throw error;
    }
  }

  async function goOn(first: Promise<void>): Promise<void> {
    await first.catch(() => undefined);
    while (held === undefined && !stopping.signal.aborted) {
      await pause(AGAIN_MS[failed.kind], stopping.signal);
      if (!stopping.signal.aborted) await attempt().catch(() => undefined);
    }
  }

  const tried = attempt();
  const ended = goOn(tried);
  return {
    name,
    weight,
    drain,
    tried,
    state: () => {
      if (held === undefined) return failed;
      return held.pulse.answers() ? { kind: 'ready' } : { kind: 'unreachable', why: 'it does not answer' };
    },
    opened: () => held?.server,
    stop: async () => {
      stopping.abort();
      await ended;
      held?.pulse.stop();
      if (held !== undefined) await closeAll(held.resources);
      held = undefined;
    },
  };
}

function whyNot(error: unknown, server: string): Exclude<ServerState, { kind: 'ready' }> {
  if (error instanceof StepError)
    return {
      kind: 'unreachable',
      why: whyUnreachable(error).replaceAll('postgres.external', `postgres.servers[${server}]`),
    };
  if (error instanceof ConfigError) return { kind: 'unfit', why: error.message };
  return { kind: 'unfit', why: 'its files cannot be read, or it could not be opened' };
}

/** Resolves after the time, or when the server stops. */
function pause(ms: number, stopping: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      stopping.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    stopping.addEventListener('abort', done);
    if (stopping.aborted) done();
  });
}
