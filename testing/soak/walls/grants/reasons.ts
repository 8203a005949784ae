/** Why no check can show that a statement is another: by its file and the change. docs/verify.md has them, too. */
const REASONS: readonly (readonly [file: string, change: string, reason: string])[] = [
  [
    'db/isolation/statements.ts',
    'a role that stays may log in',
    'access was cut before, by the same word; this says it again for a role that somebody has let in meanwhile',
  ],
];

export const reasonOf = (file: string, change: string): string | undefined =>
  REASONS.find(([of, what]) => file.endsWith(of) && change === what)?.[2];
