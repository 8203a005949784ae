/**
 * `npm run soak -- walls --only rbac,admission,grants` changes those protections, without a cluster (walls/parts.ts).
 * `npm run soak -- walls [--quick] [--only POLICY,…]` removes and opens each NetworkPolicy of the running Space, one change at
 * a time, and checks that a cell of `npm run verify` differs. The operator would restore the policies of a Capsule at once, so it
 * is scaled to zero for them. `--quick` tries every fourth change. The Space must be one for tests; if a run is killed, the next
 * one undoes its change.
 */
import { randomBytes } from 'node:crypto';
import { DEFAULT_CLUSTER, openCluster } from '../../e2e/cluster/index.ts';
import { createKube, type Kube } from '../../e2e/space/kube.ts';
import { targetArguments } from '../../e2e/verify/ask.ts';
import { type Discovered, discover } from '../../e2e/verify/discover.ts';
import type { Cell } from '../../e2e/verify/matrix.ts';
import { measure } from '../../e2e/verify/measure.ts';
import { deleteProbers, deployProbers, type Probers, wait } from '../../e2e/verify/probers.ts';
import { targetsOf } from '../../e2e/verify/verify.ts';
import type { SoakOptions, SoakReport } from './soak.ts';
import { changed } from './walls/change.ts';
import { type Mutant, mutantsOf, nameOf, type Policy } from './walls/mutants.ts';
import { partsIn, runParts } from './walls/parts.ts';
import { must, undoLeftovers, withUndo } from './walls/undo.ts';

const SPACE = 'home';
const OPERATOR = { name: `${SPACE}-operator`, namespace: `${SPACE}-system` };
const LIFETIME_SECONDS = 4 * 3600;
const SECONDS = 300;
const stop = new AbortController();
const PATIENCE = { seconds: SECONDS, signal: stop.signal };
/** The number of measurements; a second one is for policies that took effect later. */
const LOOKS = 2;

/** Why no cell can differ, by a part of the policy's name and the change. */
const REASONS: Readonly<Record<string, string>> = {
  'space-default-deny removed':
    'the policy beside it isolates each Assistant’s pod in both directions as well; this one is for pods that belong to no Assistant, and the operator restores it (operator/capsule/walls.test.ts)',
  'network-probe':
    'only the operator’s own probes are subject to this policy, and the condition NetworkReady reports what they reach',
};

interface Tried {
  readonly mutant: Mutant;
  readonly flipped: readonly Cell[];
}

/** Returns the cells that differ, as measured by the given sources, or by all. */
type Look = (whom?: (name: string) => boolean) => Promise<readonly Cell[]>;

export async function run(options: SoakOptions): Promise<SoakReport> {
  const parts = partsIn(options.only ?? []);
  return parts.length > 0 ? runParts(parts, options) : runPolicies(options);
}

async function runPolicies({ quick, only }: SoakOptions): Promise<SoakReport> {
  const cluster = await openCluster(process.env['SPACE_CLUSTER'] ?? DEFAULT_CLUSTER);
  if (cluster === undefined) throw new Error('no Space is running: start one with npm run up');
  const kube = createKube(await cluster.tool('kubectl'), cluster.kubeconfig);
  const place = {
    space: SPACE,
    namespace: SPACE,
    run: `w${randomBytes(4).toString('hex')}`,
    lifetime: LIFETIME_SECONDS,
  };
  // An interrupted run still undoes its change.
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => stop.abort(new Error(`ended by ${signal}`)));
  const left = await undoLeftovers({ kube, namespace: SPACE });
  if (left.length > 0) console.error(`… undid what an earlier run had left changed: ${left.join(', ')}`);
  await deleteProbers(kube, { space: SPACE, namespace: SPACE }, SECONDS);
  try {
    const around = await discover(kube, SPACE);
    const targets = targetsOf(around, []);
    const prober = { name: 'Assistant', party: 'assistant', addresses: [], blocks: [] } as const;
    const probers = await deployProbers(
      kube,
      place,
      around,
      targetArguments(around.picture, prober, targets),
      PATIENCE,
    );
    const look: Look = async (whom) => {
      const { cells } = await measure(kube, around, probers, targets, undefined, whom);
      return cells.filter(({ agrees }) => !agrees);
    };
    const before = await look();
    if (before.length > 0) throw new Error(`cells differ although nothing was changed yet: ${told(before)}`);

    const wanted = await wantedPolicies(kube, around, probers, only);
    const mutants = wanted.flatMap(mutantsOf).filter((_, i) => !quick || i % 4 === 0);
    const tried = await tryAll(kube, mutants, probers, look);
    // The operator may have new pods by now, which are not asked.
    const after = (await look()).filter(notOfOperator);
    return report(tried, after);
  } finally {
    await deleteProbers(kube, place, SECONDS);
  }
}

/** The policies of the Space's components, and of the first prober's Capsule, which are the same for each Capsule. */
async function wantedPolicies(
  kube: Kube,
  { policies }: Discovered,
  { capsules }: Probers,
  only?: readonly string[],
) {
  const ofCapsule = await kube.list('networkpolicies', capsules[0]?.namespace ?? '');
  const all = [...policies, ...ofCapsule] as unknown as Policy[];
  return all.filter(({ metadata }) => only?.some((name) => metadata.name.includes(name)) ?? true);
}

async function tryAll(
  kube: Kube,
  mutants: readonly Mutant[],
  probers: Probers,
  look: Look,
): Promise<Tried[]> {
  const ofCapsule = ({ policy }: Mutant) => policy.metadata.namespace === probers.capsules[0]?.namespace;
  const ofParts = await inTurn(
    mutants.filter((mutant) => !ofCapsule(mutant)),
    (one) => tryOne(kube, one, look),
  );
  const others = mutants.filter(ofCapsule);
  if (others.length === 0) return ofParts;
  const { name, namespace } = OPERATOR;
  const replicas: number = (await kube.get('deployment', name, namespace))?.['spec'].replicas ?? 1;
  const lookWithout: Look = async (whom) => (await look(whom)).filter(notOfOperator);
  const undo = { kind: 'replicas', name, namespace, replicas } as const;
  const rest = await withUndo({ kube, namespace: SPACE }, undo, async () => {
    await scaleOperator(kube, 0);
    return inTurn(others, (one) => tryOne(kube, one, lookWithout));
  });
  await operatorHas(kube, replicas);
  return [...ofParts, ...rest];
}

async function inTurn<T, R>(all: readonly T[], act: (one: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (const one of all) {
    stop.signal.throwIfAborted();
    results.push(await act(one));
  }
  return results;
}

async function tryOne(kube: Kube, mutant: Mutant, look: Look): Promise<Tried> {
  const flipped = await changed({ kube, namespace: SPACE }, mutant, PATIENCE, async () => {
    for (let looks = 1; looks < LOOKS; looks++) {
      const seen = await look();
      if (seen.length > 0) return seen;
    }
    return look();
  });
  console.error(`… ${nameOf(mutant)}: ${flipped.length} cells`);
  // The next change is alone only once this one is undone on every node.
  await wait(
    'all cells to be as expected again',
    PATIENCE,
    async () => (await look()).length === 0 || undefined,
  );
  return { mutant, flipped };
}

async function scaleOperator(kube: Kube, replicas: number): Promise<void> {
  const { name, namespace } = OPERATOR;
  await must(kube, ['scale', 'deployment', name, '-n', namespace, `--replicas=${replicas}`]);
  await operatorHas(kube, replicas);
}

const operatorHas = (kube: Kube, replicas: number) =>
  wait(`${replicas} operators`, PATIENCE, async () => {
    const { name, namespace } = OPERATOR;
    const status = (await kube.get('deployment', name, namespace))?.['status'] ?? {};
    return (status.replicas ?? 0) === replicas && (status.readyReplicas ?? 0) === replicas ? true : undefined;
  });

/** Leaves out pods of the operator that could not be asked, since it is scaled to zero for a Capsule's policies. */
const notOfOperator = ({ party, seen }: Cell) => party !== 'operator' || seen !== 'unasked';

const told = (cells: readonly Cell[]) =>
  cells.map(({ from, target, seen }) => `${from} -> ${target}: ${seen}`).join('; ');

function report(tried: readonly Tried[], after: readonly Cell[]): SoakReport {
  const reasonOf = (mutant: Mutant) =>
    Object.entries(REASONS).find(([part]) => nameOf(mutant).includes(part))?.[1];
  const survivors = tried.filter(({ flipped }) => flipped.length === 0);
  const unexplained = survivors.filter(({ mutant }) => reasonOf(mutant) === undefined);
  return {
    title:
      'NetworkPolicies of an installed Space, each changed alone, with the cells of npm run verify that differ then',
    rows: tried.map(({ mutant, flipped: [first, ...others] }) => ({
      policy: `${mutant.policy.metadata.namespace}/${mutant.policy.metadata.name}`,
      change: mutant.change,
      cells: first === undefined ? 0 : others.length + 1,
      'first cell':
        first === undefined
          ? (reasonOf(mutant) ?? 'SURVIVED')
          : `${first.from} -> ${first.target}: ${first.seen}`,
    })),
    figures: {
      mutants: tried.length,
      noticed: tried.length - survivors.length,
      explained: survivors.length - unexplained.length,
      survived: unexplained.length,
      wrong_after: after.length,
    },
    passed: unexplained.length === 0 && after.length === 0,
  };
}
