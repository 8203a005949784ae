/**
 * `node e2e/suites/cluster.ts up|down [nodes]`: the suites' own cluster with a Space on it; `up` prints what `setup.ts` needs.
 * SPACE_PROVIDER says where it comes from, SPACE_SUITES how it is laid out; with `nodes` it is a native one of three.
 */
import { bringUp, type Cluster, takeDown } from '../cluster/index.ts';
import { createSteps } from '../progress/index.ts';
import { applyExamples, bringUpSpace, type EngineImages } from '../space/index.ts';
import { createKube, type Kube } from '../space/kube.ts';
import { readOptions } from '../space/options.ts';
import { enginesOfChart, givenPostgres, type OwnEngines, startEngines } from './engines.ts';
import { apiPortOf, layoutAsked } from './layouts.ts';
import type { Installed } from './support/installed.ts';

const [act, kind] = process.argv.slice(2);
const layout = kind === 'nodes' ? kind : layoutAsked();
const several = layout === 'nodes' || layout === 'three-nodes';
const provider = several ? undefined : process.env['SPACE_PROVIDER'];
/** One that is chosen has a cluster of its own name: a native one belongs to the machine, whoever made it. */
const CLUSTER = ['space-test', layout, provider].filter((part) => part !== undefined).join('-');
const chosen = provider === undefined ? [] : ['--provider', provider];
const args = ['--api-port', apiPortOf(layout), ...chosen, ...(several ? ['--nodes', '3'] : [])];

const steps = createSteps();
try {
  if (act === 'down') await takeDown(CLUSTER, { steps });
  else {
    const release = { space: 'home', namespace: 'home' };
    const { cluster: wanted } = readOptions(args, CLUSTER);
    if (layout === 'nodes') await keepDataOnFirst(await bringUp({ ...wanted, steps }));
    let own: OwnEngines | undefined;
    const prepare = (kube: Kube, images: EngineImages) =>
      steps.run('engines of one’s own', async () => {
        own = await startEngines(kube, release.space, images, await givenPostgres());
        return own;
      });
    const running = await bringUpSpace(
      { ...wanted, ...release, steps },
      layout === 'own-engines' ? prepare : undefined,
    );
    const { kube, namespace, ledgerImage } = running;
    await steps.run('examples', () => applyExamples(kube, release, ledgerImage));
    const installed: Installed = {
      cluster: CLUSTER,
      kubectl: running.kubectl,
      kubeconfig: running.cluster.kubeconfig,
      space: running.space,
      namespace,
      image: ledgerImage,
      severalNodes: several,
      ...(layout !== undefined && layout !== 'nodes' && { layout }),
      engines: own?.engines ?? enginesOfChart(`${running.space}-services`, running.engineImages),
    };
    console.log(JSON.stringify(installed));
  }
} catch {
  process.exitCode = 1; // the step that failed has told why
} finally {
  steps.close();
}

/** Claims the volumes of the further nodes without a user, so that losing one of these nodes loses no data. */
async function keepDataOnFirst(cluster: Cluster): Promise<void> {
  const kube = createKube(await cluster.tool('kubectl'), cluster.kubeconfig);
  const { stdout } = await kube.run(['get', 'persistentvolumes', '--output', 'name']);
  const further = stdout.split('\n').filter((name) => /\/local-[0-9]-/.test(name));
  const patch = JSON.stringify({ spec: { claimRef: { namespace: 'kube-system', name: 'nobody' } } });
  const { code, stderr } = await kube.run(['patch', ...further, '--type', 'merge', '--patch', patch]);
  if (code !== 0) throw new Error(stderr);
}
