/** The issuer did not answer, or named nobody. Its message may contain a code or a name, and is never shown. */
export class IssuerError extends Error {
  override readonly name = 'IssuerError';
}
