import { eventually } from '../../testing/eventually.ts';
import { CONFIG_MAP } from '../kinds.ts';
import type { ApiClient } from '../runtime/client.ts';
import { ApiError, isNotFound } from '../runtime/errors.ts';
import { pathOf } from '../runtime/kube-object.ts';

const POLICIES = '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies';
const BINDINGS = '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings';

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

/** Makes a policy that is in force when this resolves; what it answers takes it away again. */
export async function deny(
  client: ApiClient,
  namespace: string,
  { group, resource, operations, where = 'true', message, reason }: Denied,
): Promise<() => Promise<void>> {
  policies += 1;
  const name = `denied-${namespace}-${policies}`;
  const isKnock = `request.resource.resource == "configmaps" && request.operation == "CREATE" && object.metadata.name == "${name}"`;
  const rule = { apiVersions: ['v1'], operations };
  const spec = {
    failurePolicy: 'Fail',
    matchConstraints: {
      resourceRules: [
        { ...rule, apiGroups: [group], resources: [resource] },
        { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['configmaps'] },
      ],
    },
    validations: [
      {
        expression: `!(${isKnock}) && !(request.resource.resource == "${resource}" && ${where})`,
        messageExpression: message,
        ...(reason ? { reason } : {}),
      },
    ],
  };
  const binding = { policyName: name, validationActions: ['Deny'] };
  await client.call({ method: 'POST', path: POLICIES, body: { metadata: { name }, spec } });
  await client.call({ method: 'POST', path: BINDINGS, body: { metadata: { name }, spec: binding } });
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
    for (const path of [BINDINGS, POLICIES])
      await client.call({ method: 'DELETE', path: `${path}/${name}`, body: {} }).catch((error: unknown) => {
        if (!isNotFound(error)) throw error;
      });
    await eventually(async () => !(await knock()), { what: 'the policy is in force no more' });
  };
}
