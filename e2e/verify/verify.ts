/**
 * One run: discovers the Space, deploys the probers, makes every pod try every target, compares, checks, and always
 * deletes the probers.
 */
import type { Kube } from '../space/kube.ts';
import { outcomesOf, targetArguments } from './ask.ts';
import { targetsBeyond } from './beyond.ts';
import type { Place } from './bystanders.ts';
import { checksOf } from './checks.ts';
import { type Discovered, discover, targetsInside } from './discover.ts';
import { resultsIn } from './look.ts';
import { compare, type Source } from './matrix.ts';
import { measure } from './measure.ts';
import { deleteProbers, deployProbers, type Patience, type Probers, wait } from './probers.ts';
import type { Report } from './report.ts';

export interface VerifyOptions extends Place {
  /** Addresses beyond the cluster at which something answers. */
  readonly outside: readonly { readonly address: string; readonly port: number }[];
}

interface Parts {
  readonly kube: Kube;
  readonly clock: () => number;
  readonly patience: Patience;
  readonly say: (what: string) => void;
}

const PROBER: Source = { name: 'Assistant', party: 'assistant', addresses: [], blocks: [] };

export const targetsOf = (around: Discovered, outside: VerifyOptions['outside']) => [
  ...targetsInside(around),
  ...targetsBeyond(around, outside),
];

export async function verify(wanted: VerifyOptions, parts: Parts): Promise<Report> {
  const { kube, patience, say } = parts;
  const { space, namespace } = wanted;
  await deleteProbers(kube, { space, namespace }, patience.seconds);
  const [looked] = await Promise.allSettled([look(wanted, parts)]);
  say('deleting the probers');
  const [left] = await Promise.allSettled([deleteProbers(kube, wanted, patience.seconds)]);
  const problems = [looked, left].flatMap((step) =>
    step.status === 'rejected' ? [step.reason as Error] : [],
  );
  if (looked.status === 'fulfilled' && problems.length === 0) return looked.value;
  throw new Error(problems.map(({ message }) => message).join('\n'), { cause: problems[0] });
}

async function look(wanted: VerifyOptions, { kube, clock, patience, say }: Parts): Promise<Report> {
  const started = clock();
  const around = await discover(kube, wanted.space);
  const targets = targetsOf(around, wanted.outside);
  say('creating two Capsules with a prober each');
  const probers = await deployProbers(
    kube,
    wanted,
    around,
    targetArguments(around.picture, PROBER, targets),
    patience,
  );
  const [looked, first] = await Promise.all([
    measure(kube, around, probers, targets, (sources, all) => say(`${sources} pods try ${all} targets`)),
    firstLooks(kube, probers, patience),
  ]);
  patience.signal.throwIfAborted();
  say('checking credentials, sandbox and admission');
  const checks = await checksOf(kube, wanted, probers);
  const nowhere = wanted.outside.length === 0;
  return {
    space: wanted.space,
    started: new Date(started).toISOString(),
    seconds: Math.round((clock() - started) / 1000),
    versions: versionsOf(around, probers),
    images: imagesOf(around),
    cells: [...compare(around.picture, first.sources, targets, first.seen, looked.seen), ...looked.cells],
    checks,
    unanswered: looked.unanswered,
    notes: nowhere ? ['addresses outside the cluster, since no option --outside names one'] : [],
  };
}

/** What each prober reached from its first instruction on, from its own log. */
async function firstLooks(kube: Kube, { sources }: Probers, patience: Patience) {
  const probers = sources.filter(({ party }) => party === 'assistant');
  const looks = await Promise.all(
    probers.map(async ({ pod, ...source }) => {
      const { name, namespace = '' } = pod.metadata;
      const found = await wait(`the first results of ${source.name}`, patience, async () =>
        resultsIn((await kube.run(['logs', '-n', namespace, name, '-c', 'assistant'])).stdout),
      );
      return { source: { ...source, name: `${source.name}, at its start` }, seen: outcomesOf(found) };
    }),
  );
  return {
    sources: looks.map(({ source }) => source),
    seen: new Map(looks.map(({ source, seen }) => [source.name, seen])),
  };
}

function versionsOf(
  { kubernetes, nodes, policies, plugins }: Discovered,
  { capsules }: Probers,
): Record<string, string> {
  const classes = new Set(capsules.map(({ pod }) => pod['spec'].runtimeClassName));
  return {
    Kubernetes: kubernetes,
    'network plugin': plugins.join('; ') || 'unknown: no DaemonSet of the cluster is recognised as one',
    'runtime class': [...classes].join(),
    'NetworkPolicies of the parts': `${policies.length}`,
    ...Object.fromEntries(
      nodes.map(({ metadata, status: { nodeInfo } }) => [
        `node ${metadata.name}`,
        `${nodeInfo.osImage}, ${nodeInfo.kernelVersion}, ${nodeInfo.containerRuntimeVersion}, kubelet ${nodeInfo.kubeletVersion}`,
      ]),
    ),
  };
}

const imagesOf = ({ pods }: Discovered): Record<string, string> =>
  Object.fromEntries(
    pods.flatMap(({ metadata, status }) =>
      (status.containerStatuses ?? []).map(({ name, imageID }: { name: string; imageID: string }) => [
        `${metadata.name}/${name}`,
        imageID,
      ]),
    ),
  );
