/**
 * Disables one direction of all network policies, by a policy of the network plugin's own kind, and measures the
 * matrix with one set of probers as often as requested.
 */
import { targetArguments } from '../../verify/ask.ts';
import { discover } from '../../verify/discover.ts';
import { measure } from '../../verify/measure.ts';
import { deleteProbers, deployProbers, type Patience } from '../../verify/probers.ts';
import { failures } from '../../verify/report.ts';
import { targetsOf } from '../../verify/verify.ts';
import { installed, kube, unique } from './space.ts';

type Direction = 'Ingress' | 'Egress';

/** The traffic of a direction that is let through: all of it, or what a rule of Calico's names. */
export interface Hole {
  readonly type: Direction;
  readonly only?: object;
}

/** Calico evaluates this policy before those of Kubernetes, so that these have no effect on that traffic. */
export const allowPolicy = ({ type, only = {} }: Hole) => ({
  apiVersion: 'crd.projectcalico.org/v1',
  kind: 'GlobalNetworkPolicy',
  metadata: { name: `default.one-way-${type.toLowerCase()}` },
  spec: { order: 0, selector: 'all()', types: [type], [type.toLowerCase()]: [{ action: 'Allow', ...only }] },
});
const POLICIES = 'globalnetworkpolicies.crd.projectcalico.org';
export const enforceAll = () =>
  Promise.all(
    (['Ingress', 'Egress'] as const).map((type) =>
      kube.remove(POLICIES, allowPolicy({ type }).metadata.name),
    ),
  );

/**
 * A matrix that is measured repeatedly with one set of probers, which start while all network policies are enforced.
 */
export async function openMatrix(patience: Patience) {
  const { space, namespace } = installed;
  const place = { space, namespace, run: unique('way'), lifetime: 3_600 };
  // Objects that a killed run has left would be mistaken for parts of the Space.
  await deleteProbers(kube, { space, namespace }, patience.seconds);
  const around = await discover(kube, installed.space);
  const targets = targetsOf(around, []);
  const nobody = { name: 'Assistant', party: 'assistant', addresses: [], blocks: [] } as const;
  const close = () => deleteProbers(kube, place, patience.seconds);
  const firstLook = targetArguments(around.picture, nobody, targets);
  const probers = await deployProbers(kube, place, around, firstLook, patience).catch(async (error) => {
    await close();
    throw error;
  });
  return {
    async wrong() {
      const { cells, unanswered } = await measure(kube, around, probers, targets);
      return failures({ cells, unanswered, checks: [] });
    },
    close,
  };
}
