/**
 * The vocabulary in which every rule is stated, once, as data. The parser, the JSON Schemas, the
 * CustomResourceDefinitions and the admission policies are all made from it.
 */

interface Described {
  /** A noun phrase, as an editor shows it above a property. */
  readonly title: string;
  /** A sentence or two: what the value is for and what it may be. */
  readonly description: string;
}

/**
 * One regular expression that a string must match, or must not. It is written in what ECMAScript and RE2 share
 * (no look-around, no back-reference; a character by number as `\uXXXX`).
 */
export interface Check {
  /** The rule's name in an error. */
  readonly rule: string;
  readonly expect: 'match' | 'avoid';
  readonly pattern: string;
  /** Completes the sentence "must …". */
  readonly says: string;
}

/** A string; lengths count Unicode code points, and are judged before any pattern is. */
export interface StringRule extends Described {
  readonly kind: 'string';
  readonly min: number;
  /** Without it, as long as it likes; its patterns then take linear time and no stack. */
  readonly max?: number;
  readonly checks?: readonly Check[];
  readonly except?: readonly string[];
  /** The value never appears in a message: it may be long or private. */
  readonly hidden?: true;
  readonly immutable?: true;
  readonly default?: string;
  readonly examples?: readonly string[];
}

/** One of a few words. */
export interface ChoiceRule<W extends string = string> extends Described {
  readonly kind: 'choice';
  readonly options: readonly W[];
  readonly default?: NoInfer<W>;
}

export interface IntegerRule extends Described {
  readonly kind: 'integer';
  readonly min: number;
  readonly max: number;
  readonly default?: number;
}

export interface BooleanRule extends Described {
  readonly kind: 'boolean';
  readonly default?: boolean;
}

/** An amount as Kubernetes writes it: a whole number, or a string such as `500m` or `1Gi`. */
export interface QuantityRule extends Described {
  readonly kind: 'quantity';
  readonly examples?: readonly string[];
}

export interface ListRule<I extends Rule = Rule> extends Described {
  readonly kind: 'list';
  readonly min: number;
  readonly max: number;
  readonly items: I;
  /** `value`: no two equal items; otherwise the property in which no two items may agree. */
  readonly unique?: 'value' | { readonly by: string };
}

/** An object whose keys are data. */
export interface MapRule<V extends Rule = Rule> extends Described {
  readonly kind: 'map';
  readonly max: number;
  readonly keys: StringRule;
  readonly values: V;
  readonly atomic?: true;
}

export interface Properties {
  readonly [name: string]: Rule;
}

/** An object with these properties and no others. */
export interface ObjectRule<R extends Properties = Properties, O extends Properties = Properties>
  extends Described {
  readonly kind: 'object';
  readonly required: R;
  readonly optional: O;
  /** Server-side apply takes it as one value: two appliers never make a union that neither of them asked for. */
  readonly atomic?: true;
  /** At least one property must be present. */
  readonly notEmpty?: true;
  /** Exactly one of these optional properties must be present. */
  readonly exactlyOne?: readonly string[];
  /** A property (key) that is allowed only together with another (value). */
  readonly onlyWith?: Readonly<Record<string, string>>;
}

export type Rule =
  | StringRule
  | ChoiceRule
  | IntegerRule
  | BooleanRule
  | QuantityRule
  | ListRule
  | MapRule
  | ObjectRule;

/** The TypeScript type of the values that a rule accepts. */
export type Accepted<T extends Rule> = T extends StringRule
  ? string
  : T extends ChoiceRule<infer W>
    ? W
    : T extends IntegerRule
      ? number
      : T extends BooleanRule
        ? boolean
        : T extends QuantityRule
          ? string | number
          : T extends ListRule<infer I>
            ? readonly Accepted<I>[]
            : T extends MapRule<infer V>
              ? Readonly<Record<string, Accepted<V>>>
              : T extends ObjectRule<infer R, infer O>
                ? Flat<
                    { readonly [K in keyof R]: Accepted<R[K]> } & { readonly [K in keyof O]?: Accepted<O[K]> }
                  >
                : never;

type Flat<T> = { readonly [K in keyof T]: T[K] };
type Stated<T> = Omit<T, 'kind'>;

export const string = (rule: Stated<StringRule>): StringRule => ({ kind: 'string', ...rule });
export const integer = (rule: Stated<IntegerRule>): IntegerRule => ({ kind: 'integer', ...rule });
export const boolean = (rule: Stated<BooleanRule>): BooleanRule => ({ kind: 'boolean', ...rule });
export const quantity = (rule: Stated<QuantityRule>): QuantityRule => ({ kind: 'quantity', ...rule });
export const choice = <const W extends string>(rule: Stated<ChoiceRule<W>>): ChoiceRule<W> => ({
  kind: 'choice',
  ...rule,
});
export const list = <I extends Rule>(rule: Stated<ListRule<I>>): ListRule<I> => ({ kind: 'list', ...rule });
export const map = <V extends Rule>(rule: Stated<MapRule<V>>): MapRule<V> => ({ kind: 'map', ...rule });
export const object = <R extends Properties, O extends Properties>(
  rule: Stated<ObjectRule<R, O>>,
): ObjectRule<R, O> => ({ kind: 'object', ...rule });

const all = new WeakMap<ObjectRule, Properties>();

/** Every property of an object rule, in the order in which the rules state them. */
export function propertiesOf(rule: ObjectRule): Properties {
  const known = all.get(rule);
  if (known !== undefined) return known;
  const properties = { ...rule.required, ...rule.optional };
  all.set(rule, properties);
  return properties;
}
