import type { Check, ChoiceRule, IntegerRule, ListRule, MapRule, Rule, StringRule } from '../rules/rule.ts';
import { type Fault, MOST_ERRORS, NO_FAULTS } from './error.ts';
import { found, plural } from './found.ts';
import { objectFaults } from './judge-object.ts';

/** Patterns are ASCII or code units of the basic plane, so that they mean the same with and without the `u` flag. */
const patterns = new WeakMap<Check, RegExp>();

export function compiled(check: Check): RegExp {
  const known = patterns.get(check);
  if (known !== undefined) return known;
  const pattern = new RegExp(check.pattern);
  patterns.set(check, pattern);
  return pattern;
}

/** The length in code points, counted only where that of code units does not do. */
function length(value: string, max: number): number {
  let points = value.length;
  if (points <= max) return points;
  for (let at = 1; at < value.length; at += 1) {
    // Values are well-formed here: every low surrogate is the second half of a pair.
    if ((value.charCodeAt(at) & 0xfc00) === 0xdc00) points -= 1;
  }
  return points;
}

const bounds = (min: number, max: number, one: string) => {
  if (min === max) return plural(max, one);
  if (max === Number.POSITIVE_INFINITY) return `at least ${plural(min, one)}`;
  return min === 0 ? `at most ${plural(max, one)}` : `${min} to ${plural(max, one)}`;
};

/** All faults of a value by itself; those of its members' values are judged by their own rules. */
export function faults(rule: Rule, value: unknown): readonly Fault[] {
  switch (rule.kind) {
    case 'string':
      return typeof value === 'string' ? stringFaults(rule, value) : [typeFault(rule, value)];
    case 'choice':
      return choiceFaults(rule, value);
    case 'integer':
      return typeof value === 'number' ? integerFaults(rule, value) : [typeFault(rule, value)];
    case 'boolean':
      return typeof value === 'boolean' ? NO_FAULTS : [typeFault(rule, value)];
    case 'quantity':
      return typeof value === 'string' || typeof value === 'number'
        ? quantityFaults(value)
        : [typeFault(rule, value)];
    case 'list':
      return Array.isArray(value) ? listFaults(rule, value) : [typeFault(rule, value)];
    case 'map':
      return isObject(value) ? mapFaults(rule, value) : [typeFault(rule, value)];
    case 'object':
      return isObject(value) ? objectFaults(rule, value) : [typeFault(rule, value)];
  }
}

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export function stringFaults(rule: StringRule, value: string): readonly Fault[] {
  const { min, max = Number.POSITIVE_INFINITY } = rule;
  const size = length(value, max);
  if (value.length < min || size > max) {
    const much = value === '' ? 'empty text' : plural(size, 'character');
    return [{ rule: 'length', message: `must have ${bounds(min, max, 'character')}; found ${much}` }];
  }
  const fails = (check: Check) => compiled(check).test(value) !== (check.expect === 'match');
  const reserved = rule.except?.includes(value) ?? false;
  if (!reserved && !rule.checks?.some(fails)) return NO_FAULTS;
  const failed = rule.checks?.filter(fails) ?? [];
  // A value that has not the shape at all says nothing more of the rest.
  const shape = failed.find((check) => check.expect === 'match');
  const told = shape === undefined ? failed : [shape];
  const ascii = shape !== undefined;
  const show = found(value, { hidden: rule.hidden ?? false, ascii });
  const faults = told.map(({ rule: name, says }) => ({ rule: name, message: `must ${says}; found ${show}` }));
  if (!reserved) return faults;
  return [
    ...faults,
    { rule: 'reserved', message: `must not be ${show}, which the platform keeps for itself` },
  ];
}

function choiceFaults({ options }: ChoiceRule, value: unknown): readonly Fault[] {
  if (options.includes(value as string)) return NO_FAULTS;
  const allowed = options.length === 1 ? `exactly ${options[0]}` : `one of ${options.join(', ')}`;
  return [{ rule: 'choice', message: `must be ${allowed}; found ${found(value, { ascii: true })}` }];
}

function integerFaults({ min, max }: IntegerRule, value: number): readonly Fault[] {
  if (Number.isSafeInteger(value) && value >= min && value <= max) return NO_FAULTS;
  const allowed = min === max ? `exactly ${min}` : `a whole number from ${min} to ${max}`;
  return [{ rule: 'number', message: `must be ${allowed}; found ${value}` }];
}

/** What Kubernetes takes for an amount, without a sign. */
export const QUANTITY =
  '^(?:[0-9]{1,18}(?:\\.[0-9]{0,9})?|\\.[0-9]{1,9})(?:[KMGTPE]i|[munkMGTPE]|[eE][0-9]{1,2})?$';
export const quantityPattern = new RegExp(QUANTITY);

function quantityFaults(value: string | number): readonly Fault[] {
  const fits =
    typeof value === 'number' ? Number.isSafeInteger(value) && value >= 0 : quantityPattern.test(value);
  if (fits) return NO_FAULTS;
  const allowed = 'a whole number, or a quoted amount such as "500m" or "1Gi"';
  return [{ rule: 'quantity', message: `must be ${allowed}; found ${found(value, { ascii: true })}` }];
}

function listFaults(rule: ListRule, value: readonly unknown[]): readonly Fault[] {
  const { min, max, items, unique } = rule;
  const faults: Fault[] = [];
  if (value.length < min || value.length > max) {
    faults.push({ rule: 'count', message: `must have ${bounds(min, max, 'item')}; found ${value.length}` });
  }
  for (const { index, first, key } of repeated(rule, value)) {
    const same = unique === undefined || unique === 'value' ? '' : `${unique.by} `;
    const hidden = items.kind === 'string' && items.hidden === true;
    const message = `must not repeat ${same}${found(key, { hidden, ascii: true })}, which is item ${first} already`;
    faults.push({ rule: 'unique', message, at: index });
  }
  return faults.length === 0 ? NO_FAULTS : faults;
}

interface Repeated {
  readonly index: number;
  readonly first: number;
  readonly key: string;
}
const NOT_REPEATED: readonly Repeated[] = [];

/** Items that say again what an earlier one said; a list that is too long anyway is not looked at beyond its bound. */
export function repeated({ unique, max }: ListRule, list: readonly unknown[]): readonly Repeated[] {
  if (unique === undefined || list.length < 2) return NOT_REPEATED;
  const seen = new Map<string, number>();
  const found: Repeated[] = [];
  for (let index = 0; index < Math.min(list.length, 2 * max); index += 1) {
    const item = list[index];
    const key = unique === 'value' ? item : (item as Record<string, unknown> | null)?.[unique.by];
    if (typeof key !== 'string') continue;
    const first = seen.get(key);
    if (first === undefined) seen.set(key, index);
    else found.push({ index, first, key });
  }
  return found;
}

function mapFaults(rule: MapRule, value: object): readonly Fault[] {
  const keys = Object.keys(value);
  const faults: Fault[] = [];
  if (keys.length > rule.max) {
    faults.push({ rule: 'count', message: `must have at most ${rule.max} entries; found ${keys.length}` });
  }
  for (const key of keys.slice(0, MOST_ERRORS)) {
    for (const fault of stringFaults(rule.keys, key)) {
      faults.push({ ...fault, message: `has a key that is not allowed: it ${fault.message}`, at: key });
    }
  }
  return faults.length === 0 ? NO_FAULTS : faults;
}

const KINDS: Readonly<Record<Rule['kind'], string>> = {
  string: 'text',
  choice: 'text',
  integer: 'a whole number',
  boolean: 'true or false',
  quantity: 'an amount',
  list: 'a list',
  map: 'an object',
  object: 'an object',
};

/** A value of another type than the rule's. */
function typeFault(rule: Rule, value: unknown): Fault {
  const hidden = rule.kind === 'string' && rule.hidden === true;
  return {
    rule: 'type',
    message: `must be ${KINDS[rule.kind]}; found ${found(value, { hidden, ascii: true })}`,
  };
}
