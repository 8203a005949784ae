/** `npm run undelete -- capsule|assistant NAME`: brings back an object in deletion, with its data. */
import { resolve } from 'node:path';
import { commandLine } from '../../scripts/command-line.ts';
import { DEFAULT_CLUSTER, openCluster } from '../cluster/index.ts';
import { createSteps } from '../progress/index.ts';
import { createKube } from '../space/kube.ts';
import { type Kind, undelete } from './undelete.ts';

const USAGE = `usage: npm run undelete -- capsule|assistant NAME [options]
  --namespace NAMESPACE  the namespace of Capsules and Assistants (home)
  --kubeconfig FILE      the cluster (default: the one of "npm run up"); kubectl is then taken from PATH
  --file FILE            the file that records what has to be created again (undelete-NAMESPACE-KIND-NAME.json)`;

const KINDS: Readonly<Record<string, Kind>> = { capsule: 'Capsule', assistant: 'Assistant' };

const { values, positionals } = commandLine(USAGE, {
  allowPositionals: true,
  options: {
    namespace: { type: 'string', default: 'home' },
    kubeconfig: { type: 'string' },
    file: { type: 'string' },
  },
});

async function openKube() {
  if (values.kubeconfig !== undefined) return createKube('kubectl', values.kubeconfig);
  const name = process.env['SPACE_CLUSTER'] ?? DEFAULT_CLUSTER;
  const running = await openCluster(name);
  if (running === undefined)
    throw new Error(
      `The cluster ${name} is not running. Start it with npm run up, or name another cluster with --kubeconfig FILE.`,
    );
  return createKube(await running.tool('kubectl'), running.kubeconfig);
}

async function main(kind: Kind, name: string): Promise<void> {
  const { namespace } = values;
  const file = resolve(values.file ?? `undelete-${namespace}-${kind.toLowerCase()}-${name}.json`);
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop.abort());
  const steps = createSteps();
  try {
    const made = await steps.run(`undo the deletion of ${kind} ${name}`, async (step) => {
      const kube = await openKube();
      return undelete({
        kube,
        namespace,
        kind,
        name,
        file,
        note: (text) => step.note(text),
        signal: stop.signal,
      });
    });
    console.log(`Created again: ${made.length === 0 ? 'nothing, since everything exists' : made.join(', ')}`);
    console.log(
      `npm run -s kubectl -- -n ${namespace} wait --for=condition=Ready ${kind.toLowerCase()}/${name} --timeout=5m`,
    );
  } catch {
    process.exitCode = 1; // the step has reported the reason
  } finally {
    steps.close();
  }
}

const [word = '', name, ...rest] = positionals;
const kind = KINDS[word];
if (kind === undefined || name === undefined || rest.length > 0) {
  console.error(USAGE);
  process.exitCode = 2;
} else await main(kind, name);
