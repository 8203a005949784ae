import fc from 'fast-check';
import type { ObjectRule, Rule, StringRule } from '../rules/rule.ts';
import { propertiesOf } from '../rules/rule.ts';
import { accepted } from './arbitrary.ts';

/** A value that was changed in one place. */
export interface Mutant {
  readonly how: string;
  readonly value: unknown;
}

export interface Place {
  readonly path: readonly (string | number)[];
  readonly rule: Rule;
  readonly value: unknown;
}

/** Every place in a value that a rule speaks of. */
export function places(
  rule: Rule,
  value: unknown,
  path: readonly (string | number)[] = [],
): readonly Place[] {
  const here = { path, rule, value };
  if (typeof value !== 'object' || value === null) return [here];
  const members = Object.entries(value).flatMap(([key, member]) => {
    if (rule.kind === 'list') return places(rule.items, member, [...path, Number(key)]);
    if (rule.kind === 'map') return places(rule.values, member, [...path, key]);
    const inner = rule.kind === 'object' ? propertiesOf(rule)[key] : undefined;
    return inner === undefined ? [] : places(inner, member, [...path, key]);
  });
  return [here, ...members];
}

export function replaced(root: unknown, path: readonly (string | number)[], value: unknown): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return value;
  const copy = (Array.isArray(root) ? [...root] : { ...(root as object) }) as Record<
    string | number,
    unknown
  >;
  copy[key] = replaced(copy[key], rest, value);
  return copy;
}

/** Values that break the rule, each in one step from one that keeps it. */
function broken(rule: Rule, value: unknown): readonly Mutant[] {
  const wrongType =
    typeof value === 'string' && rule.kind !== 'quantity'
      ? 17
      : typeof value === 'object'
        ? 'text!'
        : { an: 'object' };
  const common = [
    { how: 'null', value: null },
    { how: 'another type', value: wrongType },
  ];
  return [...common, ...brokenBy(rule, value)];
}

function brokenBy(rule: Rule, value: unknown): readonly Mutant[] {
  switch (rule.kind) {
    case 'string':
      return brokenString(rule, value as string);
    case 'choice':
      return [{ how: 'another word', value: `${value}x` }];
    case 'integer':
      return [
        { how: 'too large', value: rule.max + 1 },
        { how: 'a fraction', value: rule.min + 0.5 },
      ];
    case 'list': {
      const items = value as readonly unknown[];
      const many = Array.from({ length: rule.max + 1 }, (_, i) =>
        typeof items[0] === 'string' ? `x${i}` : items[0],
      );
      return [
        ...(items.length > 0 ? [{ how: 'too many', value: many }] : []),
        ...(rule.min > 0 ? [{ how: 'too few', value: [] }] : []),
        ...(rule.unique !== undefined && items.length > 0
          ? [{ how: 'repeated', value: [...items, items.at(-1)].slice(-rule.max) }]
          : []),
      ];
    }
    case 'map': {
      const [first] = Object.values(value as object);
      const keys = ['Upper', 'a--b', '1a', '', 'x'.repeat(65), 'а'];
      return first === undefined
        ? []
        : keys.map((key) => ({ how: `key ${key}`, value: { ...(value as object), [key]: first } }));
    }
    case 'quantity':
      return [
        { how: 'a negative amount', value: -1 },
        { how: 'a fraction', value: 0.5 },
        { how: 'more than a number says exactly', value: 2 ** 53 },
        { how: 'an unknown suffix', value: '1Zi' },
      ];
    case 'object':
      return brokenObject(rule, value as Record<string, unknown>);
    default:
      return [];
  }
}

function brokenString(rule: StringRule, value: string): readonly Mutant[] {
  const { checks = [] } = rule;
  const hidden = checks.every((check) => check.rule === 'nul') ? ['\u0000'] : ['\u202e', '\u0000', '\n'];
  return [
    ...(rule.max === undefined ? [] : [{ how: 'too long', value: 'x'.repeat(rule.max + 1) }]),
    ...(rule.min > 0 ? [{ how: 'empty', value: '' }] : []),
    ...(checks.length > 0 ? hidden.map((char) => ({ how: 'a hidden character', value: value + char })) : []),
    ...(rule.except ?? []).map((word) => ({ how: 'reserved', value: word })),
  ];
}

function brokenObject(rule: ObjectRule, value: Record<string, unknown>): readonly Mutant[] {
  const without = (name: string) => Object.fromEntries(Object.entries(value).filter(([key]) => key !== name));
  return [
    ...['extra', 'constructor', 'toString'].map((name) => ({
      how: `unknown ${name}`,
      value: { ...value, [name]: 1 },
    })),
    { how: 'an unknown null', value: { ...value, nothing: null } },
    ...Object.keys(rule.required).map((name) => ({ how: `no ${name}`, value: without(name) })),
    ...Object.keys(rule.optional)
      .filter((name) => !Object.hasOwn(value, name))
      .map((name) => ({ how: `null ${name}`, value: { ...value, [name]: null } })),
    ...(rule.notEmpty ? [{ how: 'empty', value: {} }] : []),
    ...(rule.exactlyOne ?? [])
      .filter((name) => Object.hasOwn(value, name))
      .map((name) => ({ how: `no ${name}`, value: without(name) })),
  ];
}

/** Values that keep a rule but for one step. */
export function mutants(rule: Rule): fc.Arbitrary<Mutant> {
  return fc.tuple(accepted(rule), fc.nat(), fc.nat()).map(([value, where, which]) => {
    const all = places(rule, value);
    const place = all[where % all.length];
    if (place === undefined) throw new Error('a value has at least one place');
    const ways = broken(place.rule, place.value);
    const way = ways[which % ways.length];
    if (way === undefined) throw new Error('every rule can be broken');
    return { how: `${place.path.join('/')}: ${way.how}`, value: replaced(value, place.path, way.value) };
  });
}

const NASTY = [
  '',
  ' ',
  '\u00a0',
  '.',
  '..',
  '/',
  '//',
  '%2E',
  '%',
  '-',
  '--',
  '@',
  '*',
  'A',
  'ä',
  'а',
  '0',
  '\ufeff',
  '\u2028',
  '🪙',
  '?',
  '#',
  ':',
  'xn--',
  '.local',
  'x'.repeat(300),
];

/** Values with one string changed in a way that may or may not break the rule: every judge must say the same. */
export function edited(rule: Rule): fc.Arbitrary<Mutant> {
  const piece = fc.oneof(fc.constantFrom(...NASTY), fc.string({ unit: 'binary', maxLength: 2 }));
  return fc
    .tuple(accepted(rule), fc.nat(), fc.nat(), piece, fc.boolean())
    .map(([value, where, at, text, insert]) => {
      const all = places(rule, value).filter((place) => typeof place.value === 'string');
      const place = all[where % all.length];
      if (place === undefined) return { how: 'nothing', value };
      const points = [...String(place.value)];
      points.splice(at % (points.length + 1), insert ? 0 : 1, text);
      return { how: `${place.path.join('/')}: edited`, value: replaced(value, place.path, points.join('')) };
    });
}
