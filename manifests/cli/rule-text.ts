import { tokens } from '../parse/yaml.ts';
import { manifest } from '../rules/manifest.ts';
import type { Rule } from '../rules/rule.ts';
import { propertiesOf } from '../rules/rule.ts';

/** The rule of what a pointer points to; the key of a map and the number of an item may be any, or `*`. */
export function ruleAt(pointer: string): Rule | undefined {
  let rule: Rule | undefined = manifest;
  for (const token of tokens(pointer === '/' ? '' : pointer)) {
    if (rule?.kind === 'object') {
      const properties: Readonly<Record<string, Rule>> = propertiesOf(rule);
      rule = Object.hasOwn(properties, token) ? properties[token] : undefined;
    } else if (rule?.kind === 'map') rule = rule.values;
    else if (rule?.kind === 'list') rule = /^(?:[0-9]+|\*|-)$/.test(String(token)) ? rule.items : undefined;
    else return undefined;
  }
  return rule;
}

/** A rule as text for people. */
export function ruleText(pointer: string, rule: Rule): string {
  return [
    `${pointer || '/'}: ${rule.title}`,
    '',
    rule.description,
    '',
    ...facts(rule).map((fact) => `  ${fact}`),
    '',
  ].join('\n');
}

function facts(rule: Rule): readonly string[] {
  switch (rule.kind) {
    case 'string':
      return [
        rule.max === undefined ? 'text' : `text of ${rule.min} to ${rule.max} characters`,
        ...(rule.checks ?? []).map(({ rule: name, says }) => `must ${says}  [${name}]`),
        ...(rule.except === undefined ? [] : [`must not be ${rule.except.join(', ')}  [reserved]`]),
        ...(rule.immutable ? ['cannot be changed later'] : []),
        ...(rule.examples ?? []).map((example) => `example: ${example}`),
      ];
    case 'choice':
      return [`one of ${rule.options.join(', ')}`];
    case 'integer':
      return [
        rule.min === rule.max ? `exactly ${rule.min}` : `a whole number from ${rule.min} to ${rule.max}`,
      ];
    case 'boolean':
      return ['true or false'];
    case 'quantity':
      return ['an amount, such as 500m or 1Gi'];
    case 'list':
      return [
        `a list of ${rule.min} to ${rule.max} items${rule.unique === undefined ? '' : ', no two alike'}`,
        `each item: ${rule.items.title}`,
      ];
    case 'map':
      return [
        `an object of at most ${rule.max} entries`,
        ...facts(rule.keys).map((fact) => `each key: ${fact}`),
        `each value: ${rule.values.title}`,
      ];
    case 'object':
      return [
        ...Object.entries(rule.required).map(([name, { title }]) => `${name} (required): ${title}`),
        ...Object.entries(rule.optional).map(([name, { title }]) => `${name}: ${title}`),
        'no other property',
        ...(rule.notEmpty ? ['at least one of them'] : []),
        ...(rule.exactlyOne === undefined ? [] : [`exactly one of ${rule.exactlyOne.join(' and ')}`]),
        ...Object.entries(rule.onlyWith ?? {}).map(([name, other]) => `${name} only together with ${other}`),
      ];
  }
}
