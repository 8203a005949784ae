/** The reasons why no check can show a change of a statement, by file and change, as in docs/verify.md. */
const REASONS: readonly (readonly [file: string, change: string, reason: string])[] = [
  [
    'db/isolation/statements.ts',
    'a role that is kept after a drop may log in',
    'the same statement has cut its access before; this repeats it in case somebody has let the role in meanwhile',
  ],
];

export const reasonOf = (file: string, change: string): string | undefined =>
  REASONS.find(([of, what]) => file.endsWith(of) && change === what)?.[2];
