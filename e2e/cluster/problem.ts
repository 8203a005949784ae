/** Something that whoever runs the command can mend: what is wrong, and how. */
export class ClusterProblem extends Error {
  override readonly name = 'ClusterProblem';

  constructor(wrong: string, mend: string, options?: ErrorOptions) {
    super([wrong, mend].filter((part) => part !== '').join('\n'), options);
  }
}
