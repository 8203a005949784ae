/** The reasons why no check can show a change of an admission policy, by its name and the beginning of the change, as in docs/verify.md. */
const MISSING_DIFFERS =
  'an object that does not exist has no spec, which differs from every spec, so the rest of the condition holds';
const REFUSED_ANYWAY = 'an earlier rule refuses the deletion, except where keepOnUninstall is false';

const FENCED = 'the fence refuses what the operator writes there';

const REASONS: readonly (readonly [name: string, change: string, reason: string])[] = [
  [
    'deploy',
    'allows 9',
    'the definition of Assistants allows eight stored inputs, so a ninth reaches no policy',
  ],
  ['deploy', 'matchConditions 0 without || oldObject == null', MISSING_DIFFERS],
  ['deploy', 'matchConditions 0 without || object == null', MISSING_DIFFERS],
  [
    'operator-fence',
    'validations 5 without || !variables.consoleRole',
    'the operator may write nothing else that has rules',
  ],
  ['operator-lead-tenants', 'applies also without platform.space/space=home', FENCED],
  [
    'operator-lead-system',
    'removed',
    'its namespace has the label of the Space, for which another binding applies',
  ],
  ['operator-lead-space', 'applies also without kubernetes.io/metadata.name=home', FENCED],
  ['operator-lead-system', 'applies also without kubernetes.io/metadata.name=home-system', FENCED],
  [
    'sandbox-canary',
    'validations 0 without || object.spec.?initContainers[?0].?name',
    'the policy before it refuses a pod without the attester; the exemption only decides which message is shown',
  ],
  ['reserved-services', 'ignores ingresses (extensions)', 'Kubernetes has had no such group since 1.22'],
  ['reserved-workloads', 'matchConditions 1 without || request.resource.resource != "pods"', FENCED],
  ['protected-namespaces', 'validations 1 without || request.operation == "DELETE"', REFUSED_ANYWAY],
  ['protected-namespaces', 'validations 2 without || request.operation == "DELETE"', REFUSED_ANYWAY],
  ['protected-namespaces', 'validations 3 without || request.operation == "DELETE"', REFUSED_ANYWAY],
];

export const reasonOf = (name: string, change: string): string | undefined =>
  REASONS.find(([of, beginning]) => of === name && change.startsWith(beginning))?.[2];
