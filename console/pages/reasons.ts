/**
 * Reasons in words for people who do not know the codes; for a reason that is missing here its code is split into
 * words.
 */
const SAYS: Readonly<Record<string, string>> = {
  AccessDenied: 'Access is denied',
  ApprovalMissing: 'Waits for approval',
  BrokerNotOurs: 'Broker is not trusted',
  BrokerRefused: 'Broker refuses it',
  BrokerUnreachable: 'Broker does not answer',
  CapsuleNotReady: 'Its Capsule is not ready',
  CertificateEnded: 'Expired',
  CertificateEndsSoon: 'Expires soon',
  CrashLooping: 'Crashes repeatedly',
  DuplicateIdentifier: 'Identifier is already in use',
  EnforcementFailed: 'Network policies are not enforced',
  EnforcementUnproven: 'Network policies are not tested yet',
  GatewayNotAcknowledged: 'Gateway has not confirmed it yet',
  GatewayUnavailable: 'Gateway does not answer',
  GrantKeyUnusable: 'Key of grants cannot be used',
  HandlerMismatch: 'Runtime class has another handler',
  ImagePullFailed: 'Image cannot be pulled',
  InputInvalid: 'Stored input is not valid',
  InputNeedsReentry: 'Stored input has to be entered again',
  InputReflected: 'Stored input was returned by its host',
  InputSecretNotFound: 'Secret of a stored input is missing',
  InputSecretRefused: 'Secret of a stored input is refused',
  InputsMissing: 'Waits for a stored input',
  ManifestInvalid: 'Manifest is not valid',
  NearQuota: 'Near its quota',
  NodeWithoutHandler: 'Node has no sandbox',
  NotAttested: 'Sandbox is not verified',
  NothingReady: 'Is not running',
  PodsRefused: 'Pods are refused',
  PolicyNotInForce: 'An admission policy is missing',
  ProbeFailed: 'A probe failed',
  ProbePending: 'Is being tested',
  QuotaExceeded: 'Over its quota',
  ReadRefused: 'A right to read is missing',
  ScopesNotGranted: 'Integration is not granted',
  StartFailed: 'Did not start',
  TooFewReady: 'Is running in part',
  Unschedulable: 'No node has room',
  WriteRefused: 'A write was refused',
};

/** A code in plain words: `DatabaseReady` becomes “Database ready”. */
export function inWords(code: string): string {
  const known = Object.hasOwn(SAYS, code) ? SAYS[code] : undefined;
  if (known !== undefined) return known;
  const words = code.split(/(?<=[a-z0-9])(?=[A-Z])/);
  return words
    .map((word, index) => (index === 0 || /^[A-Z]{2}/.test(word) ? word : word.toLowerCase()))
    .join(' ');
}
