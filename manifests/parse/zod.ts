import { z } from 'zod';
import type { Rule } from '../rules/rule.ts';
import * as judge from './judge.ts';

/** The zod parser of a rule: it copies what the rule accepts and refuses everything else. */
export function zodOf(rule: Rule): z.ZodType {
  switch (rule.kind) {
    case 'string':
      return z.string().check(by((value) => judge.stringFaults(rule, value)));
    case 'choice':
      return z.enum(rule.options);
    case 'integer':
      return z.number().check(by((value) => judge.integerFaults(rule, value)));
    case 'boolean':
      return z.boolean();
    case 'quantity':
      return z.union([z.string(), z.number()]).check(by(judge.quantityFaults));
    case 'list':
      return z.array(zodOf(rule.items)).check(by((value) => judge.listFaults(rule, value)));
    case 'map':
      return z.record(z.string(), zodOf(rule.values)).check(by((value) => judge.mapFaults(rule, value)));
    case 'object': {
      const required = Object.entries(rule.required).map(([name, inner]) => [name, zodOf(inner)]);
      const optional = Object.entries(rule.optional).map(([name, inner]) => [name, zodOf(inner).optional()]);
      const shape = Object.fromEntries([...required, ...optional]) as z.ZodRawShape;
      return z.strictObject(shape).check(by((value) => judge.objectFaults(rule, value)));
    }
  }
}

/** The faults that a judge finds, as issues of zod. */
function by<T>(faults: (value: T) => readonly judge.Fault[]): z.core.CheckFn<T> {
  return (context) => {
    for (const { rule, message, at } of faults(context.value)) {
      const path = at === undefined ? [] : [at];
      context.issues.push({ code: 'custom', input: context.value, path, message, params: { rule } });
    }
  };
}
