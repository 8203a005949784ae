/** Why no check can show a change of an admission policy: by its name and the beginning of the change. docs/verify.md has them, too. */
const REASONS: readonly (readonly [name: string, change: string, reason: string])[] = [];

export const reasonOf = (name: string, change: string): string | undefined =>
  REASONS.find(([of, beginning]) => of === name && change.startsWith(beginning))?.[2];
