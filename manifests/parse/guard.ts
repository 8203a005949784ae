import type { Rule } from '../rules/rule.ts';
import { propertiesOf } from '../rules/rule.ts';
import { type ErrorReport, under } from './error.ts';
import { DEPTH_LIMIT } from './json.ts';

/** What a value amounts to. */
interface Measure {
  values: number;
  /** At least as many bytes as its JSON has. */
  bytes: number;
}

/**
 * Bounds a parsed value before anything else looks at it: its depth, its number of values, keys that would be
 * lost in a copy, and characters that have no UTF-8. Returns its measure, or undefined when it is refused.
 */
export function guard(value: unknown, most: number, report: ErrorReport): Measure | undefined {
  const measure: Measure = { values: 0, bytes: 0 };
  return walk(value, '', 0, most, measure, report) ? measure : undefined;
}

function walk(
  value: unknown,
  pointer: string,
  depth: number,
  most: number,
  measure: Measure,
  report: ErrorReport,
): boolean {
  measure.values += 1;
  measure.bytes += 24;
  if (measure.values > most) {
    report(
      '',
      'values',
      `must not have more than ${most} values altogether, which is what the largest legal one has`,
    );
    return false;
  }
  if (typeof value === 'string') return wellFormed(value, pointer, measure, report);
  if (typeof value !== 'object' || value === null) return true;
  if (depth >= DEPTH_LIMIT) {
    report(pointer, 'depth', `must not nest deeper than ${DEPTH_LIMIT} levels`);
    return false;
  }
  if (Array.isArray(value)) {
    // Every item of a list is looked at alone: a list of a million is over the bound long before its end.
    for (let i = 0; i < value.length; i += 1) {
      if (!walk(value[i], pointer, depth + 1, most, measure, report)) return false;
    }
    return true;
  }
  for (const key of Object.keys(value)) {
    if (key === '__proto__') {
      report(under(pointer, key), 'forbidden-key', 'must not be named __proto__');
      return false;
    }
    if (!wellFormed(key, pointer, measure, report)) return false;
    const member = (value as Record<string, unknown>)[key];
    if (!walk(member, pointer, depth + 1, most, measure, report)) return false;
  }
  return true;
}

function wellFormed(text: string, pointer: string, measure: Measure, report: ErrorReport): boolean {
  measure.bytes += text.length * 6;
  if (text.isWellFormed()) return true;
  report(pointer, 'unicode', 'must not have half of a surrogate pair in a string');
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
