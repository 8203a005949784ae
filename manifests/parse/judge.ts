import type {
  Check,
  ChoiceRule,
  IntegerRule,
  ListRule,
  MapRule,
  ObjectRule,
  Rule,
  StringRule,
} from '../rules/rule.ts';
import { propertiesOf } from '../rules/rule.ts';
import { MOST_ERRORS } from './error.ts';
import { found, plural } from './found.ts';
import { suggestion } from './suggestion.ts';

/** A broken rule, of a value whose place the caller knows. */
export interface Fault {
  readonly rule: string;
  readonly message: string;
  /** The property or item that is at fault, when it is not the value itself. */
  readonly at?: string | number;
}

/** No fault in what is by far the most common case: nothing is allocated for it. */
const NONE: readonly Fault[] = [];

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
      return typeof value === 'boolean' ? NONE : [typeFault(rule, value)];
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
  if (!reserved && !rule.checks?.some(fails)) return NONE;
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
  if (options.includes(value as string)) return NONE;
  const allowed = options.length === 1 ? `exactly ${options[0]}` : `one of ${options.join(', ')}`;
  return [{ rule: 'choice', message: `must be ${allowed}; found ${found(value, { ascii: true })}` }];
}

function integerFaults({ min, max }: IntegerRule, value: number): readonly Fault[] {
  if (Number.isSafeInteger(value) && value >= min && value <= max) return NONE;
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
  if (fits) return NONE;
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
  return faults.length === 0 ? NONE : faults;
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
  return faults.length === 0 ? NONE : faults;
}

/** Which properties are there that may not be, and which are not that must; their values are judged elsewhere. */
function objectFaults(rule: ObjectRule, value: object): readonly Fault[] {
  const faults: Fault[] = [];
  const known = Object.keys(propertiesOf(rule));
  for (const key of Object.keys(value)) {
    if (known.includes(key)) continue;
    if (faults.length > MOST_ERRORS) break;
    const message = `is not a property of ${rule.title} (${known.join(', ')})${faults.length < 20 ? suggestion(key, known) : ''}`;
    faults.push({ rule: 'unknown-property', message, at: key });
  }
  for (const name of Object.keys(rule.required)) {
    const property = rule.required[name];
    if (property !== undefined && !has(value, name))
      faults.push({ rule: 'required', message: `is required: ${lead(property)}`, at: name });
  }
  const together = crossFaults(rule, value);
  return faults.length === 0 ? together : [...faults, ...together];
}

const has = (value: object, name: string) =>
  Object.hasOwn(value, name) && (value as Record<string, unknown>)[name] !== undefined;

/** Whether nothing is said of an object's properties together. */
export const isPlain = ({ notEmpty, exactlyOne, onlyWith }: ObjectRule): boolean =>
  notEmpty === undefined && exactlyOne === undefined && onlyWith === undefined;

/** What is wrong with an object's properties together. */
export function crossFaults(rule: ObjectRule, value: object): readonly Fault[] {
  if (isPlain(rule)) return NONE;
  const faults: Fault[] = [];
  if (rule.notEmpty && Object.keys(value).length === 0) {
    const names = Object.keys(propertiesOf(rule)).join(', ');
    faults.push({ rule: 'not-empty', message: `must have at least one of ${names}; found none` });
  }
  if (rule.exactlyOne !== undefined) {
    const present = rule.exactlyOne.filter((name) => has(value, name));
    if (present.length !== 1) {
      const names = rule.exactlyOne.join(' and ');
      const what = present.length === 0 ? 'neither' : present.join(' and ');
      faults.push({ rule: 'exactly-one', message: `must have exactly one of ${names}; found ${what}` });
    }
  }
  for (const [name, other] of Object.entries(rule.onlyWith ?? {})) {
    if (has(value, name) && !has(value, other)) {
      const message = `is allowed only together with ${other}, which is absent`;
      faults.push({ rule: 'only-with', message, at: name });
    }
  }
  return faults;
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

/** `Version: The Assistant's own …`, as help in the place of what is missing. */
const lead = ({ title, description }: Rule) => `${title}. ${description}`;
