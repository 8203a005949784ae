/** Why nothing, or not everything, is restored, and what to do: a message for a person, without a stack. */
export class RestoreProblem extends Error {
  override readonly name = 'RestoreProblem';
}
