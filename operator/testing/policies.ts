import { eventually } from '../../testing/eventually.ts';
import { POLICY, POLICY_BINDING } from '../admission.ts';
import { CONFIG_MAP } from '../kinds.ts';
import { LABEL, policiesName, type SpaceNames } from '../names.ts';
import type { ApiClient } from '../runtime/client.ts';
import { ApiError, isNotFound } from '../runtime/errors.ts';
import { pathOf } from '../runtime/kube-object.ts';

const POLICIES = pathOf(POLICY);
const WEBHOOKS = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations';
const BINDINGS = pathOf(POLICY_BINDING);

/** Creates a release's record of its policies, and one policy in place of them; returns a function that removes both. */
export async function releasePolicies(
  client: ApiClient,
  { space, systemNamespace }: SpaceNames,
): Promise<() => Promise<void>> {
  const name = `${space}-test`;
  const specs = {
    [POLICY.kind]: {
      [name]: {
        matchConstraints: {
          resourceRules: [
            { apiGroups: [''], apiVersions: ['*'], resources: ['configmaps'], operations: ['CREATE'] },
          ],
        },
        validations: [{ expression: 'object.metadata.name != "refused"' }],
      },
    },
    [POLICY_BINDING.kind]: {
      [name]: {
        policyName: name,
        validationActions: ['Deny'],
        matchResources: {
          namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': systemNamespace } },
        },
      },
    },
  };
  await client.call({
    method: 'POST',
    path: pathOf(CONFIG_MAP, systemNamespace),
    body: { metadata: { name: policiesName(space) }, data: { specs: JSON.stringify(specs) } },
  });
  for (const resource of [POLICY, POLICY_BINDING])
    await client.call({
      method: 'POST',
      path: pathOf(resource),
      body: { metadata: { name, labels: { [LABEL.space]: space } }, spec: specs[resource.kind]?.[name] },
    });
  return async () => {
    for (const path of [BINDINGS, POLICIES])
      await client.call({ method: 'DELETE', path: `${path}/${name}`, body: {} }).catch(unlessGone);
  };
}

/** What somebody's own policy does not let through. */
export interface Denied {
  readonly group: string;
  readonly resource: string;
  readonly operations: readonly string[];
  /** CEL: which of them; all of the whole server when nothing is said. */
  readonly where?: string;
  /** CEL, as a policy may make its message of the object. */
  readonly message: string;
  readonly reason?: 'Forbidden' | 'Invalid';
}

let policies = 0;

/** Creates a policy that is in force when this resolves; returns a function that removes it. */
export async function deny(
  client: ApiClient,
  namespace: string,
  { group, resource, operations, where = 'true', message, reason }: Denied,
): Promise<() => Promise<void>> {
  policies += 1;
  const name = `denied-${namespace}-${policies}`;
  const rule = { apiVersions: ['v1'], operations };
  const spec = {
    failurePolicy: 'Fail',
    matchConstraints: { resourceRules: [{ ...rule, apiGroups: [group], resources: [resource] }, KNOCKS] },
    validations: [
      {
        expression: `!(${isKnock(name)}) && !(request.resource.resource == "${resource}" && ${where})`,
        messageExpression: message,
        ...(reason ? { reason } : {}),
      },
    ],
  };
  const binding = { policyName: name, validationActions: ['Deny'] };
  await client.call({ method: 'POST', path: POLICIES, body: { metadata: { name }, spec } });
  await client.call({ method: 'POST', path: BINDINGS, body: { metadata: { name }, spec: binding } });
  return whileInForce(client, namespace, name, [BINDINGS, POLICIES]);
}

/** The same by a webhook that must be asked and does not answer. */
export async function denyByAbsence(
  client: ApiClient,
  namespace: string,
  { group, resource, operations, where = 'true' }: Omit<Denied, 'message' | 'reason'>,
): Promise<() => Promise<void>> {
  policies += 1;
  const name = `absent-${namespace}-${policies}`;
  const webhook = {
    name: 'absent.space.test',
    clientConfig: { url: 'https://127.0.0.1:1/' },
    sideEffects: 'None',
    admissionReviewVersions: ['v1'],
    failurePolicy: 'Fail',
    rules: [{ apiGroups: [group], apiVersions: ['v1'], operations, resources: [resource] }, KNOCKS],
    matchConditions: [
      {
        name: 'which',
        expression: `${isKnock(name)} || request.resource.resource == "${resource}" && ${where}`,
      },
    ],
  };
  await client.call({ method: 'POST', path: WEBHOOKS, body: { metadata: { name }, webhooks: [webhook] } });
  return whileInForce(client, namespace, name, [WEBHOOKS]);
}

/** By a ConfigMap that is never made it is seen whether a policy is in force. */
const KNOCKS = { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['configmaps'] };

const isKnock = (name: string) =>
  `request.resource.resource == "configmaps" && request.operation == "CREATE" && object.metadata.name == "${name}"`;

/** Resolves when the policy is in force, with a function that removes its objects. */
async function whileInForce(
  client: ApiClient,
  namespace: string,
  name: string,
  paths: readonly string[],
): Promise<() => Promise<void>> {
  const knock = () =>
    client
      .call({
        method: 'POST',
        path: pathOf(CONFIG_MAP, namespace),
        query: { dryRun: 'All' },
        body: { metadata: { name } },
      })
      .then(
        () => false,
        (error: unknown) => error instanceof ApiError,
      );
  await eventually(knock, { what: 'the policy is in force' });
  return async () => {
    for (const path of paths)
      await client.call({ method: 'DELETE', path: `${path}/${name}`, body: {} }).catch(unlessGone);
    await eventually(async () => !(await knock()), { what: 'the policy is in force no more' });
  };
}

function unlessGone(error: unknown): void {
  if (!isNotFound(error)) throw error;
}
