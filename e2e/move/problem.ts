/** Why a Capsule is not moved, or not yet, and what to do: a message for a person, without a stack. */
export class MoveProblem extends Error {
  override readonly name = 'MoveProblem';
}

/**
 * Messages of servers may contain names that a tenant chose, so control characters are replaced before they reach a
 * terminal.
 */
export const printable = (text: string): string => text.replace(/[^\P{C}\n]/gu, '?');
