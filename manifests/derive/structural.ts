import { QUANTITY } from '../parse/judge.ts';
import type { ListRule, MapRule, ObjectRule, Rule, StringRule } from '../rules/rule.ts';
import { cel, re2 } from './patterns.ts';

/** A schema node of a CustomResourceDefinition. */
export type Structural = Readonly<Record<string, unknown>>;

interface Validation {
  readonly rule: string;
  readonly message: string;
}

/**
 * The structural schema of a rule. What a CRD cannot say in its schema is said in CEL; that an object is closed it cannot
 * say at all: objects keep unknown properties, and explicit nulls where a property is optional, for the admission policy
 * to refuse, since otherwise the API server would drop both in silence.
 */
export function structural(rule: Rule): Structural {
  const validations = validationsOf(rule);
  return {
    description: rule.description,
    ...shape(rule),
    ...('default' in rule && rule.default !== undefined ? { default: rule.default } : {}),
    ...(validations.length > 0 ? { 'x-kubernetes-validations': validations } : {}),
  };
}

const nullable = (rule: Rule): Structural => ({ ...structural(rule), nullable: true });

function shape(rule: Rule): Structural {
  switch (rule.kind) {
    case 'string': {
      const pattern = patternOf(rule);
      const lengths = { minLength: rule.min, ...(rule.max === undefined ? {} : { maxLength: rule.max }) };
      return { type: 'string', ...lengths, ...(pattern === undefined ? {} : { pattern: re2(pattern) }) };
    }
    case 'choice':
      return { type: 'string', enum: rule.options };
    case 'integer':
      return { type: 'integer', minimum: rule.min, maximum: rule.max };
    case 'boolean':
      return { type: 'boolean' };
    case 'quantity':
      return {
        'x-kubernetes-int-or-string': true,
        anyOf: [{ type: 'integer' }, { type: 'string' }],
        minimum: 0,
        maximum: Number.MAX_SAFE_INTEGER,
        maxLength: 40,
        pattern: QUANTITY,
      };
    case 'list':
      return listShape(rule);
    case 'map':
      return {
        type: 'object',
        maxProperties: rule.max,
        additionalProperties: nullable(rule.values),
        'x-kubernetes-map-type': rule.atomic ? 'atomic' : 'granular',
      };
    case 'object':
      return objectShape(rule);
  }
}

function listShape({ min, max, items, unique }: ListRule): Structural {
  const bounds = { type: 'array', ...(min > 0 ? { minItems: min } : {}), maxItems: max };
  const list = { ...bounds, items: structural(items) };
  if (unique === undefined) return { ...list, 'x-kubernetes-list-type': 'atomic' };
  if (unique === 'value') return { ...list, 'x-kubernetes-list-type': 'set' };
  return { ...list, 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': [unique.by] };
}

function objectShape(rule: ObjectRule): Structural {
  const required = Object.entries(rule.required).map(([name, inner]) => [name, structural(inner)]);
  const optional = Object.entries(rule.optional).map(([name, inner]) => [name, nullable(inner)]);
  return {
    type: 'object',
    ...(required.length > 0 ? { required: Object.keys(rule.required) } : {}),
    ...(rule.notEmpty ? { minProperties: 1 } : {}),
    properties: Object.fromEntries([...required, ...optional]),
    'x-kubernetes-preserve-unknown-fields': true,
    ...(rule.atomic ? { 'x-kubernetes-map-type': 'atomic' } : {}),
  };
}

/** The one pattern that the schema itself states; the other checks of a string are CEL. */
const patternOf = (rule: StringRule): string | undefined =>
  rule.checks?.find(({ expect }) => expect === 'match')?.pattern;

function validationsOf(rule: Rule): readonly Validation[] {
  switch (rule.kind) {
    case 'string':
      return stringValidations(rule);
    case 'map':
      return keyValidations(rule);
    case 'object':
      return objectValidations(rule);
    default:
      return [];
  }
}

function stringValidations(rule: StringRule): readonly Validation[] {
  const native = patternOf(rule);
  const checks = (rule.checks ?? [])
    .filter(({ pattern }) => pattern !== native)
    .map(({ expect, pattern, says }) => ({
      rule: `${expect === 'match' ? '' : '!'}self.matches(${cel(re2(pattern))})`,
      message: `must ${says}`,
    }));
  const words = (rule.except ?? []).map(cel).join(', ');
  const except = {
    rule: `!(self in [${words}])`,
    message: 'must not be a name that the platform keeps for itself',
  };
  const immutable = { rule: 'self == oldSelf', message: 'is immutable' };
  return [...checks, ...(words === '' ? [] : [except]), ...(rule.immutable ? [immutable] : [])];
}

function keyValidations({ keys }: MapRule): readonly Validation[] {
  const checks = (keys.checks ?? []).map(({ expect, pattern, says }) => ({
    rule: `self.all(key, ${expect === 'match' ? '' : '!'}key.matches(${cel(re2(pattern))}))`,
    message: `every key must ${says}`,
  }));
  const { min, max = Number.MAX_SAFE_INTEGER } = keys;
  const size = {
    rule: `self.all(key, size(key) >= ${min} && size(key) <= ${max})`,
    message: `every key must have ${min} to ${max} characters`,
  };
  return [size, ...checks];
}

function objectValidations(rule: ObjectRule): readonly Validation[] {
  const has = (name: string) => `has(self.${name})`;
  const one = rule.exactlyOne?.map((name) => `(${has(name)} ? 1 : 0)`).join(' + ');
  const exactlyOne = {
    rule: `${one} == 1`,
    message: `must have exactly one of ${rule.exactlyOne?.join(' and ')}`,
  };
  const onlyWith = Object.entries(rule.onlyWith ?? {}).map(([name, other]) => ({
    rule: `!${has(name)} || ${has(other)}`,
    message: `${name} is allowed only together with ${other}`,
  }));
  return [...(one === undefined ? [] : [exactlyOne]), ...onlyWith];
}
