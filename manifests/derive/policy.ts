import type { ObjectRule, Rule } from '../rules/rule.ts';
import { propertiesOf } from '../rules/rule.ts';
import { cel } from './patterns.ts';

/** A validation of a ValidatingAdmissionPolicy. */
interface Validation {
  readonly expression: string;
  readonly message: string;
  readonly messageExpression?: string;
  readonly reason: 'Invalid';
}

/**
 * CEL that closes every object under a rule: no unknown property, and no explicit null. Objects come outermost
 * first, and each validation looks past what an earlier one refused, so that the first message is the right one.
 */
function closing(rule: ObjectRule, root: string): readonly Validation[] {
  return visit(rule, {
    value: root,
    path: root.replace(/^object\./, ''),
    wrap: (inner) => `!has(${root}) || (${inner})`,
    depth: 0,
  });
}

/** The position of the walk: how CEL reaches the value, and how a condition is made to hold for all such values. */
interface Cursor {
  readonly value: string;
  readonly path: string;
  readonly wrap: (condition: string) => string;
  readonly depth: number;
}

function visit(rule: Rule, cursor: Cursor): readonly Validation[] {
  const { value, path, wrap, depth } = cursor;
  const name = `v${depth}`;
  switch (rule.kind) {
    case 'object': {
      const own = close(rule, cursor);
      const inner = Object.entries(propertiesOf(rule)).flatMap(([key, child]) => {
        const member = access(value, key);
        const condition = (c: string) => wrap(`!(${cel(key)} in ${value}) || ${member} == null || (${c})`);
        return visit(child, { value: member, path: `${path}.${key}`, wrap: condition, depth });
      });
      return [own, ...inner];
    }
    case 'map': {
      const noNull = validation(
        wrap(`${value}.all(${name}, ${value}[${name}] != null)`),
        `${path}: a value must not be null`,
      );
      const member = `${value}[${name}]`;
      const all = (c: string) => wrap(`${value}.all(${name}, ${member} == null || (${c}))`);
      return [
        noNull,
        ...visit(rule.values, { value: member, path: `${path}.*`, wrap: all, depth: depth + 1 }),
      ];
    }
    case 'list': {
      const all = (c: string) => wrap(`${value}.all(${name}, ${c})`);
      return visit(rule.items, { value: name, path: `${path}[*]`, wrap: all, depth: depth + 1 });
    }
    default:
      return [];
  }
}

const access = (value: string, key: string) =>
  /^[A-Za-z_][A-Za-z0-9_]*$/.test(key) ? `${value}.${key}` : `${value}[${cel(key)}]`;

function close(rule: ObjectRule, { value, path, wrap, depth }: Cursor): Validation {
  const names = Object.keys(propertiesOf(rule));
  const key = `k${depth}`;
  const known = `[${names.map(cel).join(', ')}]`;
  const closed = validation(
    wrap(`${value}.all(${key}, ${key} in ${known} && ${value}[${key}] != null)`),
    `${path}: unknown property or null; ${rule.title} has ${names.join(', ')}`,
  );
  // Inside a list or a map several members may be at fault; only a single object's can be named.
  if (depth > 0) return closed;
  const culprits = `${value}.filter(${key}, !(${key} in ${known}) || ${value}[${key}] == null)`;
  const messageExpression = `${cel(`${path}: unknown property or null: `)} + ${culprits}[0] + ${cel(`; ${rule.title} has ${names.join(', ')}`)}`;
  return { ...closed, messageExpression };
}

const validation = (expression: string, message: string): Validation => ({
  expression,
  message,
  reason: 'Invalid',
});

/** The two objects that make up a policy: what it demands, and in which namespace. */
export function policy(options: {
  readonly name: string;
  readonly namespace: string;
  readonly resource: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly spec: ObjectRule;
}): readonly object[] {
  const { name, namespace, resource, labels, spec } = options;
  const metadata = { name, labels };
  const api = { apiVersion: 'admissionregistration.k8s.io/v1' };
  return [
    {
      ...api,
      kind: 'ValidatingAdmissionPolicy',
      metadata,
      spec: {
        failurePolicy: 'Fail',
        matchConstraints: {
          matchPolicy: 'Equivalent',
          resourceRules: [
            {
              apiGroups: ['platform.space'],
              apiVersions: ['*'],
              operations: ['CREATE', 'UPDATE'],
              resources: [resource],
            },
          ],
        },
        // An object that is stored already may always lose its finalizers.
        matchConditions: [
          {
            name: 'spec-changed',
            expression:
              'oldObject == null || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec',
          },
        ],
        validations: closing(spec, 'object.spec'),
      },
    },
    {
      ...api,
      kind: 'ValidatingAdmissionPolicyBinding',
      metadata,
      spec: {
        policyName: name,
        validationActions: ['Deny'],
        matchResources: {
          namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
        },
      },
    },
  ];
}
