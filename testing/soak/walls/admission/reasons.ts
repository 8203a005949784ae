/** Why no check can show a change of an admission policy: by its name and the beginning of the change. docs/verify.md has them, too. */
const NOTHING_IS_ANOTHER =
  'what is not there has no spec, and that is another than any: the rest of the condition holds';
const REFUSED_ANYWAY = 'a deletion is refused by the rule before it, but where keepOnUninstall is false';

const FENCED = 'whatever it writes elsewhere the fence refuses';

const REASONS: readonly (readonly [name: string, change: string, reason: string])[] = [
  [
    'deploy',
    'allows 9',
    'the definition of Assistants allows eight stored inputs: a ninth comes to no policy',
  ],
  ['deploy', 'matchConditions 0 without || oldObject == null', NOTHING_IS_ANOTHER],
  ['deploy', 'matchConditions 0 without || object == null', NOTHING_IS_ANOTHER],
  [
    'operator-fence',
    'validations 5 without || !variables.consoleRole',
    'nothing else that it may write has rules',
  ],
  ['operator-lead-tenants', 'holds also without platform.space/space=home', FENCED],
  [
    'operator-lead-system',
    'taken away',
    'its namespace has the label of the Space, by which another binding holds there',
  ],
  ['operator-lead-space', 'holds also without kubernetes.io/metadata.name=home', FENCED],
  ['operator-lead-system', 'holds also without kubernetes.io/metadata.name=home-system', FENCED],
  [
    'sandbox-canary',
    'validations 0 without || object.spec.?initContainers[?0].?name',
    'a pod without the attester is refused by the policy before; this only leaves the word to that one',
  ],
  ['reserved-services', 'does not see ingresses by extensions', 'Kubernetes has no such group since 1.22'],
  ['reserved-workloads', 'matchConditions 1 without || request.resource.resource != "pods"', FENCED],
  ['protected-namespaces', 'validations 1 without || request.operation == "DELETE"', REFUSED_ANYWAY],
  ['protected-namespaces', 'validations 2 without || request.operation == "DELETE"', REFUSED_ANYWAY],
  ['protected-namespaces', 'validations 3 without || request.operation == "DELETE"', REFUSED_ANYWAY],
];

export const reasonOf = (name: string, change: string): string | undefined =>
  REASONS.find(([of, beginning]) => of === name && change.startsWith(beginning))?.[2];
