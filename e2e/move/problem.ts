/** Why a Capsule is not moved, or not yet, and what to do: for a person, without a stack. */
export class MoveProblem extends Error {
  override readonly name = 'MoveProblem';
}

/** What servers say may hold names that a tenant chose: no control character of them reaches a terminal. */
export const printable = (text: string): string => text.replace(/[^\P{C}\n]/gu, '?');
