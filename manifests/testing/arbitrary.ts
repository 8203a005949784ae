import fc from 'fast-check';
import { compiled } from '../parse/judge.ts';
import type { ListRule, MapRule, ObjectRule, Rule, StringRule } from '../rules/rule.ts';

/** The most members of a generated list or map: enough to exercise every rule, and few enough for a server to accept. */
const MEMBERS = 3;

/** Values that a rule accepts, made from the rule alone. */
export function accepted(rule: Rule): fc.Arbitrary<unknown> {
  switch (rule.kind) {
    case 'string':
      return acceptedString(rule);
    case 'choice':
      return fc.constantFrom(...rule.options);
    case 'integer':
      return fc.integer({ min: rule.min, max: rule.max });
    case 'boolean':
      return fc.boolean();
    case 'quantity':
      return fc.oneof(fc.nat(64), fc.stringMatching(/^[1-9][0-9]{0,3}(?:m|Ki|Mi|Gi)?$/));
    case 'list':
      return acceptedList(rule);
    case 'map':
      return acceptedMap(rule);
    case 'object':
      return acceptedObject(rule);
  }
}

const strings = new WeakMap<StringRule, fc.Arbitrary<string>>();

function acceptedString(rule: StringRule): fc.Arbitrary<string> {
  const known = strings.get(rule);
  if (known !== undefined) return known;
  const shapes = (rule.checks ?? []).filter(({ expect }) => expect === 'match').map(compiled);
  // The last pattern is the narrowest: a link's host comes after the shape of every Help URL.
  const shape = shapes.at(-1);
  const base =
    shape === undefined
      ? fc.string({
          unit: fc.oneof(
            fc.string({ unit: 'grapheme', minLength: 1, maxLength: 1 }),
            fc.constantFrom(...'ab c.1'),
          ),
          minLength: rule.min,
          maxLength: Math.min(rule.max ?? 12, 12),
        })
      : fc.stringMatching(shape.source.endsWith('/') ? new RegExp(`${shape.source}[a-z]{1,5}$`) : shape, {
          maxLength: Math.min(rule.max ?? 40, 40),
        });
  const fits = (value: string) => {
    const size = [...value].length;
    return (
      size >= rule.min &&
      size <= (rule.max ?? size) &&
      value.isWellFormed() &&
      !rule.except?.includes(value) &&
      (rule.checks ?? []).every((check) => compiled(check).test(value) === (check.expect === 'match'))
    );
  };
  // Generating a string from a pattern is slow, so each document combines members of a pool.
  const pool = fc.sample(base.filter(fits), { numRuns: 40, seed: 1 });
  const arbitrary = fc.constantFrom(...pool);
  strings.set(rule, arbitrary);
  return arbitrary;
}

function acceptedList({ min, max, items, unique }: ListRule): fc.Arbitrary<unknown> {
  const bounds = { minLength: min, maxLength: Math.max(min, Math.min(max, MEMBERS)) };
  if (unique === undefined) return fc.array(accepted(items), bounds);
  const selector = (item: unknown) =>
    unique === 'value' ? item : (item as Record<string, unknown>)[unique.by];
  return fc.uniqueArray(accepted(items), { ...bounds, selector });
}

const acceptedMap = ({ keys, values, max }: MapRule): fc.Arbitrary<unknown> =>
  fc.dictionary(acceptedString(keys), accepted(values), { maxKeys: Math.min(max, 2), noNullPrototype: true });

function acceptedObject(rule: ObjectRule): fc.Arbitrary<unknown> {
  const model = Object.fromEntries(
    Object.entries({ ...rule.required, ...rule.optional }).map(([name, inner]) => [name, accepted(inner)]),
  );
  const object = fc.record(model, { requiredKeys: Object.keys(rule.required), noNullPrototype: true });
  const one = rule.exactlyOne === undefined ? fc.constant(undefined) : fc.constantFrom(...rule.exactlyOne);
  const some = fc.constantFrom(...Object.keys(model));
  return fc
    .tuple(object, one, some, fc.record(model, { noNullPrototype: true }))
    .map(([value, chosen, any, whole]) => {
      const members: Record<string, unknown> = { ...value };
      for (const name of rule.exactlyOne ?? []) delete members[name];
      if (chosen !== undefined) members[chosen] = whole[chosen];
      for (const [name, other] of Object.entries(rule.onlyWith ?? {}))
        if (!(other in members)) delete members[name];
      if (rule.notEmpty && Object.keys(members).length === 0) members[any] = whole[any];
      return members;
    });
}
