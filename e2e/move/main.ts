/** `npm run move`: moves a Capsule to another PostgreSQL server of its Space. */
import { commandLine } from '../../scripts/command-line.ts';
import { DEFAULT_CLUSTER, openCluster } from '../cluster/index.ts';
import { createSteps, type Steps } from '../progress/index.ts';
import { createKube } from '../space/kube.ts';
import { moveCapsule, takeBack } from './move.ts';
import { MoveProblem } from './problem.ts';

const USAGE = `usage: npm run move -- CAPSULE SERVER [options]
       npm run move -- CAPSULE --back [options]
  SERVER                 the target: its name in postgres.servers, or main
  --back                 undoes a move that was interrupted before it switched
  --image IMAGE          an image with copy.sh and the programs of the servers' version of PostgreSQL (default: the one of the Space's own server)
  --space NAME           the Helm release (home)
  --namespace NAMESPACE  the namespace of its Capsules (the Space's name)
  --kubeconfig FILE      the cluster (default: the one of "npm run up"); kubectl is then taken from PATH`;

async function kubeOf(kubeconfig: string | undefined) {
  if (kubeconfig !== undefined) return createKube('kubectl', kubeconfig);
  const name = process.env['SPACE_CLUSTER'] ?? DEFAULT_CLUSTER;
  const running = await openCluster(name);
  if (running === undefined)
    throw new MoveProblem(
      `The cluster ${name} is not running. Start it with npm run up, or name another cluster with --kubeconfig FILE.`,
    );
  return createKube(await running.tool('kubectl'), running.kubeconfig);
}

const { values: options, positionals } = commandLine(USAGE, {
  allowPositionals: true,
  options: {
    back: { type: 'boolean', default: false },
    image: { type: 'string' },
    space: { type: 'string', default: 'home' },
    namespace: { type: 'string' },
    kubeconfig: { type: 'string' },
  },
});

async function main(capsule: string, to: string | undefined, steps: Steps): Promise<void> {
  const { space, namespace = space, image } = options;
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop.abort());
  const kube = await kubeOf(options.kubeconfig);
  const about = { kube, space, namespace, capsule, steps, signal: stop.signal };
  const done =
    to === undefined
      ? await takeBack(about)
      : await moveCapsule({ ...about, to, image, now: () => new Date() });
  console.log(JSON.stringify(done, null, 2));
}

const [capsule, to, ...more] = positionals;
const isComplete = capsule !== undefined && more.length === 0 && options.back === (to === undefined);
if (!isComplete) {
  console.error(USAGE);
  process.exitCode = 2;
} else {
  const steps = createSteps();
  try {
    await main(capsule, to, steps);
  } catch (error) {
    process.exitCode = 1;
    // A step that failed has already reported the error.
    const isTold = steps.summary().some(({ outcome }) => outcome === 'failed');
    if (!isTold) console.error(error instanceof Error ? error.message : error);
  } finally {
    steps.close();
  }
}
