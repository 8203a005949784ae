/** Derives the mutants of a file from its syntax tree: one small change each, which some test should detect. */
import { parseAst } from 'vitest/node';

/** One change of a file; `start` and `end` are offsets in its text. */
export interface AutomaticMutant {
  readonly file: string;
  readonly line: number;
  readonly start: number;
  readonly end: number;
  readonly instead: string;
  /** The source line on which the change begins, without its indentation. */
  readonly code: string;
  /** What was changed, for people and for the list of equivalent mutants. */
  readonly change: string;
}

interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [key: string]: unknown;
}

type Edit = readonly [place: Pick<Node, 'start' | 'end'>, instead: string];
type Operator = (node: Node, textOf: (place: Pick<Node, 'start' | 'end'>) => string) => readonly Edit[];

const SWAPPED: Readonly<Record<string, string>> = {
  ...{ '<': '<=', '<=': '<', '>': '>=', '>=': '>', '===': '!==', '!==': '===' },
  ...{ '+': '-', '-': '+', '*': '/', '/': '*' },
};
const SWAPPED_CALLS: Readonly<Record<string, string>> = {
  ...{ some: 'every', every: 'some', min: 'max', max: 'min' },
};
/** Calls that only log or count a decision are not part of it. */
const ONLY_TELLS = /^(?:void )?(?:await )?(?:this\.)?#?(?:[\w.]*\.)?(?:log|logger|metrics|console)\b/i;

const child = (node: Node, key: string) => node[key] as Node;
const children = (node: Node, key: string) => node[key] as readonly (Node | null)[];

const always = (node: Node): readonly Edit[] => [
  [child(node, 'test'), 'true'],
  [child(node, 'test'), 'false'],
];

const OPERATORS: Readonly<Record<string, Operator>> = {
  IfStatement: always,
  ConditionalExpression: always,
  LogicalExpression: (node, textOf) =>
    node.operator === '??'
      ? []
      : [
          [node, `(${textOf(child(node, 'left'))})`],
          [node, `(${textOf(child(node, 'right'))})`],
        ],
  BinaryExpression(node, textOf) {
    const operator = String(node.operator);
    const swapped = SWAPPED[operator];
    if (swapped === undefined) return [];
    const [left, right] = [child(node, 'left'), child(node, 'right')];
    // Parentheses are between the operands and belong to neither.
    const text = (start: number, end: number) => textOf({ start, end });
    const between = text(left.end, right.start).replace(operator, swapped);
    return [[node, text(node.start, left.end) + between + text(right.start, node.end)]];
  },
  UnaryExpression: (node, textOf) => (node.operator === '!' ? [[node, `!${textOf(node)}`]] : []),
  ThrowStatement: (node) => [[node, ';']],
  ExpressionStatement(node, textOf) {
    const { type, argument } = child(node, 'expression') as { type: string; argument?: Node };
    const called = type === 'AwaitExpression' ? argument : child(node, 'expression');
    if (called?.type !== 'CallExpression' || child(called, 'callee').type === 'Super') return [];
    return ONLY_TELLS.test(textOf(node)) ? [] : [[node, ';']];
  },
  ArrayExpression(node) {
    const elements = children(node, 'elements');
    const whole: readonly Edit[] = elements.length === 0 ? [] : [[node, '[]']];
    // In a list of names or blocks, each element is a mutant of its own.
    if (elements.length < 2 || elements.some((one) => one?.type !== 'Literal')) return whole;
    return [...whole, ...elements.flatMap((one): Edit[] => (one === null ? [] : [[one, '']]))];
  },
  Literal(node, textOf) {
    if (node.value === true || node.value === false) return [[node, String(!node.value)]];
    const regex = /^\/(\^?)(.*?)(\$?)\/(\w*)$/s.exec(node.regex === undefined ? '' : textOf(node));
    const [, begin = '', middle = '', end = '', flags = ''] = regex ?? [];
    return [
      ...(begin === '' ? [] : [[node, `/${middle}${end}/${flags}`] as const]),
      ...(end === '' ? [] : [[node, `/${begin}${middle}/${flags}`] as const]),
    ];
  },
  MemberExpression(node) {
    const property = child(node, 'property');
    const swapped = Object.hasOwn(SWAPPED_CALLS, String(property.name))
      ? SWAPPED_CALLS[String(property.name)]
      : undefined;
    return swapped === undefined || node.computed === true ? [] : [[property, swapped]];
  },
};

/** Parts of the syntax that have no effect at run time. */
const isOnlyTypes = (node: Node, key: string) =>
  /^TS(?!AsExpression|NonNullExpression|SatisfiesExpression)/.test(node.type) || key === 'typeAnnotation';

function* nodesIn(node: Node): Generator<Node> {
  yield node;
  for (const [key, value] of Object.entries(node))
    for (const one of Array.isArray(value) ? value : [value])
      if (typeof one?.type === 'string' && !isOnlyTypes(one, key)) yield* nodesIn(one);
}

const brief = (text: string) => {
  const short = text.replaceAll(/\s+/g, ' ');
  return short.length <= 70 ? short : `${short.slice(0, 34)}…${short.slice(-34)}`;
};

export function automaticMutants(file: string, text: string): AutomaticMutant[] {
  const program = parseAst(text, { lang: 'ts' }) as unknown as Node;
  const textOf = ({ start, end }: Pick<Node, 'start' | 'end'>) => text.slice(start, end);
  const nodes = [...nodesIn(program)];
  // Conditions become always true and always false; their negation would show nothing more.
  const conditions = new Set(nodes.map(({ test }) => test));
  const isNegated = ({ operator }: Node) => operator === '!' || operator === '===' || operator === '!==';
  return nodes.flatMap((node) => {
    if (conditions.has(node) && isNegated(node)) return [];
    const operator = Object.hasOwn(OPERATORS, node.type) ? OPERATORS[node.type] : undefined;
    return (operator?.(node, textOf) ?? []).map(([{ start, end }, instead]) => {
      const from = text.slice(0, start);
      const begin = from.lastIndexOf('\n') + 1;
      return {
        ...{ file, start, end, instead },
        line: from.split('\n').length,
        code: (text.slice(begin).split('\n', 1)[0] ?? '').trim(),
        change: `${brief(textOf({ start, end }))} → ${brief(instead) || 'nothing'}`,
      };
    });
  });
}

export type Change = Pick<AutomaticMutant, 'start' | 'end' | 'instead'>;

export const mutated = (text: string, { start, end, instead }: Change): string =>
  text.slice(0, start) + instead + text.slice(end);
