/** An administrator's commands of brokers, which run in their containers. */
import { setTimeout as wait } from 'node:timers/promises';
import type { Finished, Kube } from '../space/kube.ts';
import { RestoreProblem } from './problem.ts';

export interface BrokerContext {
  readonly kube: Kube;
  readonly space: string;
  readonly signal: AbortSignal;
}

export const PATIENCE_MS = 600_000;

/** Runs a command once, in whichever container exists. */
export function runAdmin(
  { kube, space }: BrokerContext,
  deployment: string,
  command: readonly string[],
  input = '',
): Promise<Finished> {
  const exec = ['exec', '-i', '-n', `${space}-services`, `deploy/${deployment}`, '--'];
  return kube.run([...exec, 'node', '/app/admin.mjs', ...command], input);
}

/** The same, once a container runs and accepts it. */
export async function runAdminUntilAccepted(
  about: BrokerContext,
  deployment: string,
  command: readonly string[],
  input = '',
): Promise<string> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const { code, stdout, stderr } = await runAdmin(about, deployment, command, input);
    if (code === 0) return stdout;
    if (performance.now() > deadline)
      throw new RestoreProblem(
        `${deployment} did not accept the command ${command.join(' ')}: ${stderr.trim()}. Its log may show the reason: kubectl -n ${about.space}-services logs deploy/${deployment}`,
      );
    await wait(1_000, undefined, { signal: about.signal });
  }
}

export const linesOf = <T>(text: string): readonly T[] =>
  text
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as T);
