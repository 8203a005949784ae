import type { Rule } from '../rules/rule.ts';
import { propertiesOf } from '../rules/rule.ts';
import type { ErrorReport } from './error.ts';
import { DEPTH_LIMIT, tooMany } from './json.ts';

/** What a value amounts to. */
interface Measure {
  values: number;
  /** An upper bound for the bytes of its JSON. */
  bytes: number;
}

/**
 * Bounds a parsed value before anything else looks at it: its depth, its number of values, keys that would be
 * lost in a copy, and characters that have no UTF-8. Returns its measure, or undefined when it is refused.
 */
export function guard(value: unknown, most: number, report: ErrorReport): Measure | undefined {
  const measure: Measure = { values: 0, bytes: 0 };
  return walk(value, [], most, measure, report) ? measure : undefined;
}

function walk(
  value: unknown,
  path: (string | number)[],
  most: number,
  measure: Measure,
  report: ErrorReport,
): boolean {
  measure.values += 1;
  measure.bytes += 24;
  if (measure.values > most) {
    report([], 'values', tooMany(most));
    return false;
  }
  if (typeof value === 'string') return wellFormed(value, path, measure, report);
  if (typeof value !== 'object' || value === null) return true;
  if (path.length >= DEPTH_LIMIT) {
    report(path, 'depth', `must not nest deeper than ${DEPTH_LIMIT} levels`);
    return false;
  }
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i += 1) {
      path.push(i);
      if (!walk(value[i], path, most, measure, report)) return false;
      path.pop();
    }
    return true;
  }
  for (const key of Object.keys(value)) {
    if (key === '__proto__') {
      report([...path, key], 'forbidden-key', 'must not be named __proto__');
      return false;
    }
    if (!wellFormed(key, path, measure, report)) return false;
    path.push(key);
    if (!walk((value as Record<string, unknown>)[key], path, most, measure, report)) return false;
    path.pop();
  }
  return true;
}

function wellFormed(text: string, path: (string | number)[], measure: Measure, report: ErrorReport): boolean {
  measure.bytes += text.length * 6;
  if (text.isWellFormed()) return true;
  report(path, 'unicode', 'must not have half of a surrogate pair in a string');
  return false;
}

/** How many values the largest document has that a rule accepts. */
export function mostValues(rule: Rule): number {
  switch (rule.kind) {
    case 'list':
      return 1 + rule.max * mostValues(rule.items);
    case 'map':
      return 1 + rule.max * mostValues(rule.values);
    case 'object':
      return Object.values(propertiesOf(rule)).reduce((sum, inner) => sum + mostValues(inner), 1);
    default:
      return 1;
  }
}
