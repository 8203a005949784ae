import { type ObjectRule, propertiesOf, type Rule } from '../rules/rule.ts';
import { type Fault, MOST_ERRORS, NO_FAULTS } from './error.ts';
import { suggestion } from './suggestion.ts';

/** Which properties are there that may not be, and which are not that must; their values are judged elsewhere. */
export function objectFaults(rule: ObjectRule, value: object): readonly Fault[] {
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
  if (isPlain(rule)) return NO_FAULTS;
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

/** `Version: The Assistant's own …`, as help in the place of what is missing. */
const lead = ({ title, description }: Rule) => `${title}. ${description}`;
