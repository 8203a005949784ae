import { QUANTITY } from '../parse/judge.ts';
import type { ObjectRule, Rule, StringRule } from '../rules/rule.ts';

/** A node of a JSON Schema, draft 2020-12. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** The JSON Schema of a rule: for editors, and for every validator that is not ours. */
export function jsonSchema(rule: Rule): JsonSchema {
  return {
    title: rule.title,
    description: rule.description,
    ...shape(rule),
    ...('default' in rule && rule.default !== undefined ? { default: rule.default } : {}),
    ...('examples' in rule && rule.examples !== undefined ? { examples: rule.examples } : {}),
  };
}

/** A schema that stands alone, under its own name. */
export function document(id: string, schema: JsonSchema): JsonSchema {
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    $id: `https://platform.space/schema/v1/${id}.json`,
    ...schema,
  };
}

/** A resource as people write it: its kind, a name, and a spec. */
export function resource(kind: string, name: StringRule, spec: ObjectRule): JsonSchema {
  const labels = { type: 'object', additionalProperties: { type: 'string' } };
  return {
    title: spec.title,
    description: spec.description,
    type: 'object',
    required: ['apiVersion', 'kind', 'metadata', ...(Object.keys(spec.required).length > 0 ? ['spec'] : [])],
    additionalProperties: false,
    properties: {
      apiVersion: { const: 'platform.space/v1' },
      kind: { const: kind },
      metadata: {
        type: 'object',
        required: ['name'],
        properties: { name: jsonSchema(name), namespace: { type: 'string' }, labels, annotations: labels },
      },
      spec: jsonSchema(spec),
      status: { type: 'object' },
    },
  };
}

function shape(rule: Rule): JsonSchema {
  switch (rule.kind) {
    case 'string':
      return stringShape(rule);
    case 'choice':
      return rule.options.length === 1 ? { const: rule.options[0] } : { enum: rule.options };
    case 'integer':
      return rule.min === rule.max
        ? { const: rule.min }
        : { type: 'integer', minimum: rule.min, maximum: rule.max };
    case 'boolean':
      return { type: 'boolean' };
    case 'quantity':
      return { type: ['string', 'integer'], minimum: 0, maximum: Number.MAX_SAFE_INTEGER, pattern: QUANTITY };
    case 'list':
      return {
        type: 'array',
        ...(rule.min > 0 ? { minItems: rule.min } : {}),
        maxItems: rule.max,
        ...(rule.unique === undefined ? {} : { uniqueItems: true }),
        items: jsonSchema(rule.items),
      };
    case 'map':
      return {
        type: 'object',
        maxProperties: rule.max,
        propertyNames: stringShape(rule.keys),
        additionalProperties: jsonSchema(rule.values),
      };
    case 'object':
      return objectShape(rule);
  }
}

function stringShape({ min, max, checks = [], except }: StringRule): JsonSchema {
  const all = checks.map(({ expect, pattern }) => (expect === 'match' ? { pattern } : { not: { pattern } }));
  const [only] = all;
  const patterns: JsonSchema = all.length > 1 ? { allOf: all } : { ...only };
  const reserved = except === undefined ? undefined : { not: { enum: except } };
  const bounded = { type: 'string', minLength: min, ...(max === undefined ? {} : { maxLength: max }) };
  // A schema has no order: only so is a text that is too long looked at by no pattern, which may need stack for it.
  const ordered =
    max === undefined || all.length === 0 ? patterns : { if: { minLength: max + 1 }, else: patterns };
  return { ...bounded, ...ordered, ...reserved };
}

function objectShape(rule: ObjectRule): JsonSchema {
  const properties = Object.entries({ ...rule.required, ...rule.optional });
  const only = Object.entries(rule.onlyWith ?? {}).map(([name, other]) => [name, [other]]);
  return {
    type: 'object',
    ...(Object.keys(rule.required).length > 0 ? { required: Object.keys(rule.required) } : {}),
    additionalProperties: false,
    ...(rule.notEmpty ? { minProperties: 1 } : {}),
    ...(rule.exactlyOne ? { oneOf: rule.exactlyOne.map((name) => ({ required: [name] })) } : {}),
    ...(only.length > 0 ? { dependentRequired: Object.fromEntries(only) } : {}),
    properties: Object.fromEntries(properties.map(([name, inner]) => [name, jsonSchema(inner)])),
  };
}
