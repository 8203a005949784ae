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
import { found, plural, quoted } from './found.ts';

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
const compiled = new WeakMap<Check, RegExp>();
function matches(check: Check, value: string): boolean {
  const pattern = compiled.get(check) ?? new RegExp(check.pattern);
  compiled.set(check, pattern);
  return pattern.test(value) === (check.expect === 'match');
}

/** The length in code points, counted only as far as it matters. */
function length(value: string, max: number): number {
  if (value.length <= max || value.length > 2 * max) return value.length;
  let points = 0;
  for (const _ of value) points += 1;
  return points;
}

const bounds = (min: number, max: number, one: string) => {
  if (min === max) return plural(max, one);
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
  const size = length(value, rule.max);
  if (value.length < rule.min || size > rule.max) {
    const much = value === '' ? 'empty text' : plural(size, 'character');
    return [
      { rule: 'length', message: `must have ${bounds(rule.min, rule.max, 'character')}; found ${much}` },
    ];
  }
  const failed = rule.checks?.filter((check) => !matches(check, value)) ?? [];
  const reserved = rule.except?.includes(value) ?? false;
  if (failed.length === 0 && !reserved) return NONE;
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

export function integerFaults({ min, max }: IntegerRule, value: number): readonly Fault[] {
  if (Number.isSafeInteger(value) && value >= min && value <= max) return NONE;
  const allowed = min === max ? `exactly ${min}` : `a whole number from ${min} to ${max}`;
  return [{ rule: 'number', message: `must be ${allowed}; found ${value}` }];
}

/** What Kubernetes takes for an amount, without a sign. */
export const QUANTITY =
  '^(?:[0-9]{1,18}(?:\\.[0-9]{0,9})?|\\.[0-9]{1,9})(?:[KMGTPE]i|[munkMGTPE]|[eE][0-9]{1,2})?$';
const quantityPattern = new RegExp(QUANTITY);

export function quantityFaults(value: string | number): readonly Fault[] {
  const fits =
    typeof value === 'number' ? Number.isSafeInteger(value) && value >= 0 : quantityPattern.test(value);
  if (fits) return NONE;
  const allowed = 'a whole number, or a quoted amount such as "500m" or "1Gi"';
  return [{ rule: 'quantity', message: `must be ${allowed}; found ${found(value, { ascii: true })}` }];
}

export function listFaults(
  { min, max, items, unique }: ListRule,
  value: readonly unknown[],
): readonly Fault[] {
  const faults: Fault[] = [];
  if (value.length < min || value.length > max) {
    faults.push({ rule: 'count', message: `must have ${bounds(min, max, 'item')}; found ${value.length}` });
  }
  if (unique !== undefined && value.length > 1) {
    const seen = new Map<unknown, number>();
    const hidden = items.kind === 'string' && items.hidden === true;
    for (const [index, item] of value.entries()) {
      const key = unique === 'value' ? item : (item as Record<string, unknown> | null)?.[unique.by];
      if (typeof key !== 'string') continue;
      const first = seen.get(key);
      if (first === undefined) seen.set(key, index);
      else {
        const same = unique === 'value' ? '' : `${unique.by} `;
        const message = `must not repeat ${same}${found(key, { hidden, ascii: true })}, which is item ${first} already`;
        faults.push({ rule: 'unique', message, at: index });
      }
    }
  }
  return faults.length === 0 ? NONE : faults;
}

export function mapFaults(rule: MapRule, value: object): readonly Fault[] {
  const keys = Object.keys(value);
  const faults: Fault[] = [];
  if (keys.length > rule.max) {
    faults.push({ rule: 'count', message: `must have at most ${rule.max} entries; found ${keys.length}` });
  }
  for (const key of keys) {
    for (const fault of stringFaults(rule.keys, key)) {
      faults.push({ ...fault, message: `has a key that is not allowed: it ${fault.message}`, at: key });
    }
  }
  return faults.length === 0 ? NONE : faults;
}

/** Which properties are there that may not be, and which are not that must; their values are judged elsewhere. */
export function objectFaults(rule: ObjectRule, value: object): readonly Fault[] {
  const faults: Fault[] = [];
  const has = (name: string) =>
    Object.hasOwn(value, name) && (value as Record<string, unknown>)[name] !== undefined;
  const keys = Object.keys(value);
  for (const key of keys) {
    if (Object.hasOwn(rule.required, key) || Object.hasOwn(rule.optional, key)) continue;
    const known = Object.keys(propertiesOf(rule));
    faults.push({
      rule: 'unknown-property',
      message: `is not a property of ${rule.title} (${known.join(', ')})${suggestion(key, known)}`,
      at: key,
    });
  }
  for (const [name, property] of Object.entries(rule.required)) {
    if (!has(name)) faults.push({ rule: 'required', message: `is required: ${lead(property)}`, at: name });
  }
  if (rule.notEmpty && keys.length === 0) {
    const names = Object.keys(propertiesOf(rule)).join(', ');
    faults.push({ rule: 'not-empty', message: `must have at least one of ${names}; found none` });
  }
  if (rule.exactlyOne !== undefined) {
    const present = rule.exactlyOne.filter(has);
    if (present.length !== 1) {
      const what = present.length === 0 ? 'neither' : present.join(' and ');
      faults.push({
        rule: 'exactly-one',
        message: `must have exactly one of ${rule.exactlyOne.join(' and ')}; found ${what}`,
      });
    }
  }
  for (const [name, other] of Object.entries(rule.onlyWith ?? {})) {
    if (has(name) && !has(other)) {
      faults.push({
        rule: 'only-with',
        message: `is allowed only together with ${other}, which is absent`,
        at: name,
      });
    }
  }
  return faults.length === 0 ? NONE : faults;
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

/** A known name that differs by one or two letters: most unknown properties are slips. */
function suggestion(key: string, known: readonly string[]): string {
  if (key.length > 64) return '';
  const near = known.find((name) => distance(key.toLowerCase(), name) <= (name.length > 4 ? 2 : 1));
  return near === undefined ? '' : `; was ${quoted(near)} meant?`;
}

function distance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const change = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(change, (previous[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1));
    }
    previous = row;
  }
  return previous[b.length] ?? 0;
}
