import * as z from 'zod';
import type { ListRule, MapRule, ObjectRule, Rule, StringRule } from '../rules/rule.ts';
import * as judge from './judge.ts';
import { crossFaults, isPlain } from './judge-object.ts';

/** The zod parser of a rule: it copies what the rule accepts and refuses everything else. */
export const zodOf = (rule: Rule): z.ZodType => z.compile(build(rule));

function build(rule: Rule): z.ZodType {
  switch (rule.kind) {
    case 'string':
      return stringOf(rule);
    case 'choice':
      return z.enum(rule.options);
    case 'integer':
      return z.int().min(rule.min).max(rule.max);
    case 'boolean':
      return z.boolean();
    case 'quantity':
      return z.union([z.string().regex(judge.quantityPattern), z.int().min(0)]);
    case 'list':
      return listOf(rule);
    case 'map':
      return mapOf(rule);
    case 'object':
      return objectOf(rule);
  }
}

function stringOf(rule: StringRule): z.ZodType<string> {
  // What is too long is looked at by no pattern: one that repeats a group needs stack for each character.
  const last = { abort: true };
  let schema = z.string().min(rule.min, last);
  if (rule.max !== undefined) schema = schema.max(rule.max, last);
  for (const check of rule.checks ?? []) {
    const pattern = judge.compiled(check);
    schema =
      check.expect === 'match' ? schema.regex(pattern) : schema.refine((value) => !pattern.test(value));
  }
  const { except } = rule;
  return except === undefined ? schema : schema.refine((value) => !except.includes(value));
}

function listOf(rule: ListRule): z.ZodType {
  const schema = z.array(build(rule.items)).min(rule.min).max(rule.max);
  return rule.unique === undefined
    ? schema
    : schema.refine((list) => judge.repeated(rule, list).length === 0);
}

const mapOf = (rule: MapRule): z.ZodType =>
  z.record(stringOf(rule.keys), build(rule.values)).refine((value) => Object.keys(value).length <= rule.max);

function objectOf(rule: ObjectRule): z.ZodType {
  const required = Object.entries(rule.required).map(([name, inner]) => [name, build(inner)]);
  const optional = Object.entries(rule.optional).map(([name, inner]) => [name, build(inner).optional()]);
  const schema = z.strictObject(Object.fromEntries([...required, ...optional]) as z.ZodRawShape);
  return isPlain(rule) ? schema : schema.refine((value) => crossFaults(rule, value).length === 0);
}
