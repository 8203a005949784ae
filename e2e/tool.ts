/**
 * `npm run kubectl -- …` and `npm run helm -- …`: the cluster's own tools, for the cluster that `npm run up` created.
 */
import { spawnSync } from 'node:child_process';
import { DEFAULT_CLUSTER, openCluster, type Tool } from './cluster/index.ts';

/** `--cluster NAME` chooses the cluster if it comes first; all other arguments are the tool's. */
function chooseCluster(args: readonly string[]): { readonly name: string; readonly rest: readonly string[] } {
  const [first, second, ...others] = args;
  if (first === '--cluster' && second !== undefined) return { name: second, rest: others };
  return { name: process.env['SPACE_CLUSTER'] ?? DEFAULT_CLUSTER, rest: args };
}

const TOOLS: readonly Tool[] = ['kubectl', 'helm'];

const [wanted, ...args] = process.argv.slice(2);
const tool = TOOLS.find((one) => one === wanted);
if (tool === undefined) {
  console.error(`usage: node e2e/tool.ts ${TOOLS.join('|')} [--cluster NAME] ARGUMENT…`);
  process.exit(2);
}
const { name, rest } = chooseCluster(args);
const cluster = await openCluster(name);
if (cluster === undefined) {
  const chosen = name === DEFAULT_CLUSTER ? '' : ` -- --cluster ${name}`;
  console.error(`The cluster ${name} is not running. Bring it up with: npm run up${chosen}`);
  process.exit(1);
}
const { status, error } = spawnSync(await cluster.tool(tool), rest, {
  stdio: 'inherit',
  env: { ...process.env, KUBECONFIG: cluster.kubeconfig },
});
if (error !== undefined) console.error(`${tool} did not run: ${error.message}`);
process.exit(status ?? 1);
