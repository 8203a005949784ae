/** A container in which programs are run. */
import type { Kube } from '../space/kube.ts';
import type { KubeObject } from '../space/kube-object.ts';
import { RestoreProblem } from './problem.ts';

export interface Place {
  readonly kube: Pick<Kube, 'run'>;
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
}

export const placeOf = (kube: Kube, { metadata, spec }: KubeObject): Place => ({
  kube,
  namespace: metadata.namespace ?? '',
  pod: metadata.name,
  container: spec.containers[0].name,
});

/** Returns the program's output. @throws RestoreProblem with its error output if it fails */
export async function outputOf(place: Place, program: readonly string[], input?: string): Promise<string> {
  const { kube } = place;
  const { code, stdout, stderr } = await kube.run(
    [...execArgs(place, input !== undefined), ...program],
    input,
  );
  if (code !== 0) throw new RestoreProblem(reasonIn(stderr) || `${place.pod}: ${program.join(' ')} failed`);
  return stdout;
}

export const execArgs = ({ namespace, pod, container }: Place, hasInput: boolean): readonly string[] => [
  'exec',
  ...(hasInput ? ['-i'] : []),
  ...['-n', namespace, pod, '-c', container, '--'],
];

/** Returns the reason without kubectl's additions. */
export const reasonIn = (stderr: string): string =>
  stderr
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('command terminated with exit code'))
    .slice(-12)
    .join('\n');
