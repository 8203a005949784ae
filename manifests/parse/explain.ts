import type { Rule } from '../rules/rule.ts';
import type { ErrorReport } from './error.ts';
import { errorList, type ManifestError, under } from './error.ts';
import * as judge from './judge.ts';

/** Every way in which a value breaks a rule, in the order of the document. */
export function explain(rule: Rule, value: unknown, pointer = ''): readonly ManifestError[] {
  const { errors, report, full } = errorList();
  visit(rule, value, pointer, report, full);
  return errors;
}

function visit(rule: Rule, value: unknown, pointer: string, report: ErrorReport, full: () => boolean): void {
  if (full()) return;
  const tell = (faults: readonly judge.Fault[]) => {
    for (const { rule: name, message, at } of faults) {
      report(at === undefined ? pointer : under(pointer, at), name, message);
    }
  };
  const faults = judge.faults(rule, value);
  const { own, members } = split(faults);
  tell(own);
  if (typeof value !== 'object' || value === null) return;
  for (const [key, member] of Array.isArray(value) ? value.entries() : Object.entries(value)) {
    if (full()) return;
    tell(members.get(key) ?? []);
    members.delete(key);
    const inner = memberRule(rule, key);
    if (inner !== undefined && member !== undefined) visit(inner, member, under(pointer, key), report, full);
  }
  // What is missing has no place in the document: it comes at the end of its object.
  for (const missing of members.values()) tell(missing);
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

/** Faults of the value itself, and those of its members by key. */
function split(faults: readonly judge.Fault[]) {
  const own: judge.Fault[] = [];
  const members = new Map<string | number, judge.Fault[]>();
  for (const fault of faults) {
    if (fault.at === undefined) own.push(fault);
    else members.set(fault.at, [...(members.get(fault.at) ?? []), fault]);
  }
  return { own, members };
}
