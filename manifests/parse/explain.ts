import type { Rule } from '../rules/rule.ts';
import { type ErrorReport, errorList, type Fault, type ManifestError } from './error.ts';
import * as judge from './judge.ts';

/** Every way in which a value breaks a rule, in the order of the document. */
export function explain(rule: Rule, value: unknown): readonly ManifestError[] {
  const { errors, report, full } = errorList();
  visit(rule, value, { path: [], report, full });
  return errors;
}

interface Walk {
  /** The path to the value at hand, which is made into a pointer only for an error. */
  readonly path: (string | number)[];
  readonly report: ErrorReport;
  full(): boolean;
}

function visit(rule: Rule, value: unknown, walk: Walk): void {
  const faults = judge.faults(rule, value);
  const members = faults.length === 0 ? undefined : reportOwn(faults, walk);
  if (typeof value !== 'object' || value === null) return;
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length && !walk.full(); index += 1) {
      visitMember(rule, index, value[index], members, walk);
    }
  } else {
    for (const key of Object.keys(value)) {
      if (walk.full()) return;
      visitMember(rule, key, (value as Record<string, unknown>)[key], members, walk);
    }
  }
  // A missing property has no position in the document: its faults come at the end of its object.
  for (const missing of members?.values() ?? []) reportAll(missing, walk);
}

function visitMember(
  rule: Rule,
  key: string | number,
  value: unknown,
  members: Members | undefined,
  walk: Walk,
): void {
  const faults = members?.get(key);
  if (faults !== undefined) reportAll(faults, walk);
  members?.delete(key);
  const inner = memberRule(rule, key);
  if (inner === undefined || value === undefined) return;
  walk.path.push(key);
  visit(inner, value, walk);
  walk.path.pop();
}

type Members = Map<string | number, Fault[]>;

/** Reports the faults of the value itself; returns those of its members, by key. */
function reportOwn(faults: readonly Fault[], walk: Walk): Members {
  const members: Members = new Map();
  for (const fault of faults) {
    if (fault.at === undefined) reportAll([fault], walk);
    else members.set(fault.at, [...(members.get(fault.at) ?? []), fault]);
  }
  return members;
}

function reportAll(faults: readonly Fault[], { path, report }: Walk): void {
  for (const { rule, message, at } of faults) report(at === undefined ? path : [...path, at], rule, message);
}

/** The rule of a member of a list or an object; none for what should not be there. */
function memberRule(rule: Rule, key: string | number): Rule | undefined {
  const named = typeof key === 'string';
  if (rule.kind === 'list') return named ? undefined : rule.items;
  if (!named) return undefined;
  if (rule.kind === 'map') return rule.values;
  if (rule.kind !== 'object') return undefined;
  if (Object.hasOwn(rule.required, key)) return rule.required[key];
  return Object.hasOwn(rule.optional, key) ? rule.optional[key] : undefined;
}
