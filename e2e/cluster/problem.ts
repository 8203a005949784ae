/** Something that the user of the command can correct: what is wrong, and how to correct it. */
export class ClusterProblem extends Error {
  override readonly name = 'ClusterProblem';

  constructor(wrong: string, mend: string, options?: ErrorOptions) {
    super([wrong, mend].filter((part) => part !== '').join('\n'), options);
  }
}
