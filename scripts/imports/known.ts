import type { Circle } from './circles.ts';

type Kind = 'files' | 'folders';

/** How many files and folders of a room are in circles. */
type Known = Readonly<Record<string, Readonly<Partial<Record<Kind, number>>>>>;

/**
 * The circles that were there when the rule came. A figure may only become smaller, and this list goes with the last
 * of them.
 */
const KNOWN: Known = {
  operator: { files: 3 },
};

export interface Verdict {
  readonly passed: boolean;
  readonly lines: readonly string[];
}

/** Names each circle with its imports, and passes while no room has more in circles than is known of it. */
export function judge(kind: Kind, circles: readonly Circle[], known: Known = KNOWN): Verdict {
  const rooms = new Set([...Object.keys(known), ...circles.map(roomOf)]);
  const verdicts = [...rooms].map((room) => {
    const here = circles.filter((circle) => roomOf(circle) === room);
    const name = room === '' ? 'the repository' : room;
    return judgeRoom(kind, here, name, known[room]?.[kind] ?? 0);
  });
  return {
    passed: verdicts.every(({ passed }) => passed),
    lines: verdicts.flatMap(({ lines }) => lines),
  };
}

function judgeRoom(kind: Kind, circles: readonly Circle[], name: string, allowed: number): Verdict {
  const count = circles.reduce((sum, { members }) => sum + members.length, 0);
  if (count > allowed) {
    const closed = circles.flatMap(({ imports }) => imports);
    const lines = closed.map(
      ({ file, line, target }) => `${file}:${line}: closes a circle of ${kind} by importing ${target}`,
    );
    return { passed: false, lines: [...lines, `${name}: ${kind} in circles: ${count}, known: ${allowed}`] };
  }
  const lines = circles.map(({ members }) => `known circle of ${kind}: ${members.join(' ↔ ')}`);
  if (count < allowed)
    lines.push(`${name}: scripts/imports/known.ts says ${allowed} ${kind}: make it ${count}`);
  return { passed: true, lines };
}

/** `operator`, or one of `brokers`; circles between rooms belong to the repository. */
const roomOf = ({ within }: Circle) =>
  within
    .split('/')
    .slice(0, within.startsWith('brokers/') ? 2 : 1)
    .join('/');
