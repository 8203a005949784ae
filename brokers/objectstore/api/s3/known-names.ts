/**
 * Names of S3 that a refusal may repeat. Any other name is a text of the caller, and is not repeated. Supported headers
 * and parameters are listed elsewhere; these are the unsupported ones.
 */

const HEADERS = new Set([
  'x-amz-acl',
  'x-amz-bypass-governance-retention',
  'x-amz-api-version',
  'x-amz-copy-source-server-side-encryption-customer-algorithm',
  'x-amz-copy-source-server-side-encryption-customer-key',
  'x-amz-copy-source-server-side-encryption-customer-key-md5',
  'x-amz-expected-bucket-owner',
  'x-amz-source-expected-bucket-owner',
  'x-amz-grant-full-control',
  'x-amz-grant-read',
  'x-amz-grant-read-acp',
  'x-amz-grant-write',
  'x-amz-grant-write-acp',
  'x-amz-if-match-last-modified-time',
  'x-amz-if-match-size',
  'x-amz-mfa',
  'x-amz-object-lock-legal-hold',
  'x-amz-object-lock-mode',
  'x-amz-object-lock-retain-until-date',
  'x-amz-rename-source',
  'x-amz-request-payer',
  'x-amz-security-token',
  'x-amz-server-side-encryption',
  'x-amz-server-side-encryption-aws-kms-key-id',
  'x-amz-server-side-encryption-bucket-key-enabled',
  'x-amz-server-side-encryption-context',
  'x-amz-server-side-encryption-customer-algorithm',
  'x-amz-server-side-encryption-customer-key',
  'x-amz-server-side-encryption-customer-key-md5',
  'x-amz-storage-class',
  'x-amz-tagging',
  'x-amz-tagging-directive',
  'x-amz-te',
  'x-amz-website-redirect-location',
  'x-amz-write-offset-bytes',
]);

const PARAMETERS = new Set([
  'accelerate',
  'acl',
  'analytics',
  'append',
  'attributes',
  'cors',
  'encryption',
  'intelligent-tiering',
  'inventory',
  'legal-hold',
  'lifecycle',
  'logging',
  'metrics',
  'notification',
  'object-lock',
  'ownershipControls',
  'partNumber',
  'policy',
  'policyStatus',
  'publicAccessBlock',
  'renameObject',
  'replication',
  'requestPayment',
  'response-cache-control',
  'response-content-disposition',
  'response-content-encoding',
  'response-content-language',
  'response-content-type',
  'response-expires',
  'restore',
  'retention',
  'select',
  'session',
  'tagging',
  'torrent',
  'uploadId',
  'versionId',
  'versioning',
  'versions',
  'website',
]);

export function nameOfHeader(name: string): string {
  return HEADERS.has(name) ? `the header ${name} with this value` : 'a header whose name begins with x-amz-';
}

/** The first of the parameters that is a name of S3. */
export function nameOfParameter(names: Iterable<string>): string {
  for (const name of names) if (PARAMETERS.has(name)) return `the parameter ${name} here`;
  return 'a parameter of the query';
}
