/**
 * Reasons in words for people who do not know the codes; for a reason that is missing here its code is split into
 * words.
 */
const SAYS: Readonly<Record<string, string>> = {
  AccessDenied: 'Access is denied',
  ApprovalMissing: 'Waits for approval',
  BrokerNotOurs: 'Broker is not to be believed',
  BrokerRefused: 'Broker refuses it',
  BrokerUnreachable: 'Broker gives no answer',
  CapsuleNotReady: 'Its Capsule is not ready',
  CertificateEnded: 'Has ended',
  CertificateEndsSoon: 'Ends soon',
  CrashLooping: 'Ends again and again',
  DuplicateIdentifier: 'Identifier is another’s',
  EnforcementFailed: 'Walls do not hold',
  EnforcementUnproven: 'Walls are not tried yet',
  GatewayNotAcknowledged: 'Gateway has not taken it yet',
  GatewayUnavailable: 'Gateway gives no answer',
  HandlerMismatch: 'Runtime class leads elsewhere',
  ImagePullFailed: 'Image cannot be pulled',
  InputInvalid: 'Stored input is no value',
  InputNeedsReentry: 'Stored input has to be entered again',
  InputReflected: 'Stored input came back',
  InputSecretNotFound: 'Secret of a stored input is missing',
  InputSecretRefused: 'Secret of a stored input is refused',
  InputsMissing: 'Waits for a stored input',
  ManifestInvalid: 'Manifest is not valid',
  NearQuota: 'Near its quota',
  NodeWithoutHandler: 'Node has no sandbox',
  NotAttested: 'Sandbox is not proved',
  NothingReady: 'Does not run',
  PodsRefused: 'Pods are refused',
  PolicyNotInForce: 'An admission policy is missing',
  ProbeFailed: 'A probe failed',
  ProbePending: 'Being tried',
  QuotaExceeded: 'Over its quota',
  ReadRefused: 'A right to read is missing',
  ScopesNotGranted: 'Integration is not granted',
  StartFailed: 'Did not start',
  TooFewReady: 'Runs in part',
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
