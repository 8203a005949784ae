/** The issuer gave no answer, or none that names somebody. Its words may hold a code or a name, and are for no page. */
export class IssuerError extends Error {
  override readonly name = 'IssuerError';
}
