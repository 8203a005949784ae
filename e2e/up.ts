/**
 * `npm run up`: brings up a Space on a real cluster, with an example Assistant in gVisor that has a database of its
 * own. Running it again does only what is missing.
 */
import { createSteps } from './progress/index.ts';
import { applyExamples, bringUpSpace, closingText, runDemo, waitReady, withClient } from './space/index.ts';
import { readOptions, type UpOptions, USAGE, UsageError } from './space/options.ts';

const RELEASE = { space: 'home', namespace: 'home' };

async function up({ cluster: wanted, examples }: UpOptions): Promise<void> {
  const steps = createSteps();
  try {
    const running = await bringUpSpace({ ...wanted, ...RELEASE, steps });
    const { cluster, kube, namespace, ledgerImage } = running;
    // The API server's proxy reaches an Assistant only on the API server's own node.
    const severalNodes = (await kube.list('nodes', '')).length > 1;
    const demo = !examples
      ? undefined
      : await steps.run('Capsule household, Assistant ledger', async (step) => {
          await applyExamples(kube, RELEASE, ledgerImage);
          const household = await waitReady(kube, 'capsule', 'household', namespace, step);
          await waitReady(kube, 'assistant', 'ledger', namespace, step);
          const within: string = household['status'].namespace;
          if (!severalNodes) return runDemo(kube, within);
          const client = { namespace, image: ledgerImage, service: `ledger.${within}:8080` };
          return withClient(kube, client, (ask) => runDemo(kube, within, ask));
        });
    steps.close();
    const { name, provider, kubeconfig } = cluster;
    console.log(closingText({ name, provider, kubeconfig, severalNodes, ...RELEASE }, demo, steps.summary()));
  } catch (error) {
    steps.close();
    // A step that failed has reported the reason; an error between steps has not been reported.
    const told = steps.summary().some(({ outcome }) => outcome === 'failed');
    if (!told) console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  }
}

try {
  const options = readOptions(process.argv.slice(2), process.env['SPACE_CLUSTER']);
  if (options.help) console.log(USAGE);
  else await up(options);
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(`${error.message}\n\n${USAGE}`);
  process.exitCode = 2;
}
