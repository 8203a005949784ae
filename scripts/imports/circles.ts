import { posix } from 'node:path';
import type { Import } from './read.ts';
import { isForTests } from './rooms.ts';

type Graph = ReadonlyMap<string, ReadonlyMap<string, Import>>;

/** Files or folders each of which imports, perhaps through others, every other; and the imports that make it so. */
export interface Circle {
  readonly members: readonly string[];
  readonly imports: readonly Import[];
}

/** Circles of files, of tests too. */
export function fileCircles(imports: readonly Import[]): Circle[] {
  const graph = new Map<string, Map<string, Import>>();
  for (const one of imports) edge(graph, one.file, one.target, one);
  return circlesOf(graph);
}

/**
 * Circles among the folders of one folder, each with all that is below it. What stands in a folder itself assembles the
 * folders in it, and holds what they share: neither makes a circle.
 */
export function folderCircles(imports: readonly Import[]): Circle[] {
  const graphs = new Map<string, Map<string, Map<string, Import>>>();
  for (const one of imports) {
    if (isForTests(one.file) || isForTests(one.target)) continue;
    const from = one.file.split('/').slice(0, -1);
    const to = one.target.split('/').slice(0, -1);
    const depth = from.findIndex((name, index) => to[index] !== name);
    const [first, second] = [from[depth], to[depth]];
    if (first === undefined || second === undefined) continue;
    const within = from.slice(0, depth).join('/');
    const graph = graphs.get(within) ?? new Map<string, Map<string, Import>>();
    edge(graph, posix.join(within, first), posix.join(within, second), one);
    graphs.set(within, graph);
  }
  return [...graphs.values()].flatMap(circlesOf);
}

function edge(graph: Map<string, Map<string, Import>>, from: string, to: string, one: Import): void {
  const targets = graph.get(from) ?? new Map<string, Import>();
  if (!targets.has(to)) targets.set(to, one);
  graph.set(from, targets);
}

/** Two are in one circle when each reaches the other. */
function circlesOf(graph: Graph): Circle[] {
  const reached = new Map([...graph.keys()].map((node) => [node, reach(graph, node)]));
  const seen = new Set<string>();
  const circles: Circle[] = [];
  for (const [node, others] of reached) {
    if (seen.has(node) || !others.has(node)) continue;
    const members = [...others].filter((other) => reached.get(other)?.has(node)).sort();
    for (const member of members) seen.add(member);
    const inside = members.flatMap((member) => [...(graph.get(member) ?? [])]);
    circles.push({ members, imports: inside.filter(([to]) => members.includes(to)).map(([, one]) => one) });
  }
  return circles;
}

/** All that a node leads to; itself only where a way leads back. */
function reach(graph: Graph, start: string): Set<string> {
  const found = new Set<string>();
  const open = [start];
  for (let node = open.pop(); node !== undefined; node = open.pop())
    for (const next of graph.get(node)?.keys() ?? [])
      if (!found.has(next)) {
        found.add(next);
        open.push(next);
      }
  return found;
}

/** One line for each import that closes a circle: by file, line and rule. */
export function closing(kind: 'files' | 'folders', circles: readonly Circle[]): readonly string[] {
  return circles
    .flatMap(({ imports }) => imports)
    .map(({ file, line, target }) => `${file}:${line}: closes a circle of ${kind} by importing ${target}`);
}
