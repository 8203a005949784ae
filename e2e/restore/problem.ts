/** Why nothing, or not all, is restored, and what to do: for a person, without a stack. */
export class RestoreProblem extends Error {
  override readonly name = 'RestoreProblem';
}
