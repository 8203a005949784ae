/** The titles of tests and groups in a test file, as its source has them. */
import { parseAst } from 'vitest/node';

interface Node {
  readonly type: string;
  readonly [field: string]: unknown;
}

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';

/** Every node below, in the order of the file. */
function* below(node: Node): Generator<Node> {
  for (const value of Object.values(node))
    for (const one of Array.isArray(value) ? value : [value])
      if (isNode(one)) {
        yield one;
        yield* below(one);
      }
}

const list = (value: unknown): readonly Node[] => (Array.isArray(value) ? value.filter(isNode) : []);

/** The text of a literal; of a template literal its source. */
function textOf(node: Node | undefined, source: string): string[] {
  if (node === undefined) return [];
  if (node.type === 'Literal') return typeof node['value'] === 'string' ? [node['value']] : [];
  if (node.type === 'BinaryExpression')
    return [
      [node['left'], node['right']].flatMap((side) => (isNode(side) ? textOf(side, source) : [])).join(''),
    ];
  if (node.type !== 'TemplateLiteral') return [];
  return [source.slice(Number(node['start']) + 1, Number(node['end']) - 1)];
}

/** The identifier that `it`, `test.skipIf(…)` or `describe.each(…)` begins with. */
function rootOf(node: unknown): string | undefined {
  if (!isNode(node)) return undefined;
  if (node.type === 'Identifier') return String(node['name']);
  return rootOf(node['callee'] ?? node['tag'] ?? node['object']);
}

/** Rows of `each` may be the names of their tests. */
function rowsOf(callee: unknown, source: string): string[] {
  if (!isNode(callee) || callee.type !== 'CallExpression') return [];
  return list(callee['arguments']).flatMap((all) =>
    [all, ...below(all)]
      .filter(({ type }) => type === 'ArrayExpression')
      .flatMap(({ elements }) => textOf(list(elements)[0], source)),
  );
}

const RUNNERS = ['it', 'test', 'describe'];

export function titlesIn(source: string): string[] {
  const nodes = [...below(parseAst(source, { lang: 'ts' }) as unknown as Node)];
  // `const each = test.each(…)`
  const named = nodes.flatMap(({ type, id, init }) =>
    type === 'VariableDeclarator' && isNode(id) && RUNNERS.includes(rootOf(init) ?? '')
      ? [String(id['name'])]
      : [],
  );
  const runners = [...RUNNERS, ...named];
  return nodes.flatMap((node) => {
    if (node.type !== 'CallExpression') return [];
    if (!runners.includes(rootOf(node['callee']) ?? '')) return [];
    const [title] = list(node['arguments']);
    const said = textOf(title, source);
    return said.length === 0 ? [] : [...rowsOf(node['callee'], source), ...said];
  });
}
