import { BrokerError } from '@space/contracts/client';
import { type Finding, no } from '../conditions.ts';
import type { SpaceNames } from '../names.ts';
import type { Refused } from '../refusals.ts';

/** The Secret with the Capsule's principal that a call was made with. */
export interface PrincipalRef {
  readonly names: Pick<SpaceNames, 'systemNamespace' | 'servicesNamespace'>;
  readonly capsule: string;
  readonly secretName: string;
}

/** A finding about a failed call, or `undefined` if the error is not a broker's. */
export function brokerFinding(error: unknown, principal?: PrincipalRef): Finding | undefined {
  if (!(error instanceof BrokerError)) return undefined;
  const { name, deployment } = error.broker;
  switch (error.failure) {
    case 'unreachable':
      return no(
        'BrokerUnreachable',
        `The ${name} cannot do this now; it is retried. See the Deployment ${deployment} in the services namespace.`,
      );
    case 'untrusted':
      return no(
        'BrokerNotOurs',
        `The service at the ${name}'s address has no valid certificate of the Space's authority for its name, so no token was sent to it. If certificates have expired, see why the CronJob of keys in the system namespace does not renew them (docs/keys.md).`,
      );
    case 'not-ours':
      return no(
        'BrokerNotOurs',
        `The service at the ${name}'s address answers with another discovery document than the one built into the operator, so no token was sent to it. Run both from the same release.`,
      );
    case 'refused':
      if (error.code === 'quota_exceeded')
        return no(
          'QuotaExceeded',
          `The ${name} has no capacity for it: the Capsule exceeds its quota (spec.quota), or the Space has no connections left to promise (dbBroker.roleConnectionLimit times the number of Assistants, against postgres.maxConnections).`,
        );
      return error.code === 'conflict'
        ? no(
            'PrincipalLost',
            `The ${name} knows this Capsule with another principal than its Secret has, for example after the Secret was lost or changed. Restore the Secret from a backup. Without one, give the broker's administrator command the principal that is in the Secret now${principal ? `: ${replaceCommand(deployment, principal)}` : '.'} If that answers that there is no principal to replace, the Capsule was dropped: delete it and apply it again.`,
          )
        : no(
            'BrokerRefused',
            `The ${name} refused with "${error.code ?? 'no code'}". Its log has the reason.`,
          );
  }
}

/** The same for a call that only the Capsule's principal authorises. */
export function principalFinding(error: unknown, principal: PrincipalRef): Finding | undefined {
  if (error instanceof BrokerError && error.failure === 'refused' && error.code === 'conflict')
    return no(
      'BrokerRefused',
      `The ${error.broker.name} has closed this, or is dropping it. Its administrator command "list" says which, and "open ${principal.capsule}" opens it again; the broker closes a database by itself if a session in it cannot be ended.`,
    );
  if (!isForbidden(error)) return brokerFinding(error, principal);
  const { name, deployment } = error.broker;
  return no(
    'BrokerRefused',
    `The ${name} refused the principal of Capsule "${principal.capsule}" with "${error.code ?? 'no code'}". If the Capsule was dropped, which an etcd that was restored to an older state does not know, restore the Capsule from a backup; or, to begin with nothing, delete it and apply it again. If its Secret was lost or changed, restore it from a backup, or replace the principal with the broker's administrator command: ${replaceCommand(deployment, principal)}`,
  );
}

/** For `catch`: turns a broker's failure into the result of a step, and throws every other error. */
export function asBrokerRefused(error: unknown, principal: PrincipalRef): Refused {
  const finding = brokerFinding(error, principal);
  if (!finding) throw error;
  return { finding, retry: error };
}

/** The same for a call that only the Capsule's principal authorises. */
export function asPrincipalRefused(error: unknown, principal: PrincipalRef): Refused {
  const finding = principalFinding(error, principal);
  if (!finding) throw error;
  return { finding, retry: error };
}

/** Whether a broker refused the call with this status. */
export const isRefusal = (error: unknown, status: number): error is BrokerError =>
  error instanceof BrokerError && error.failure === 'refused' && error.status === status;

/** A finding of an Assistant whose Capsule has no principal. The Capsule's own reconcile makes another one. */
export const missingPrincipal = ({ names, capsule, secretName }: PrincipalRef): Finding =>
  no(
    'PrincipalLost',
    `Secret "${secretName}" of namespace "${names.systemNamespace}" lacks the principal of Capsule "${capsule}". Restore it from a backup. Without one, the operator creates another, and the conditions of the Capsule say how to tell the broker about it.`,
  );

/** Whether a broker refused the principal: it is retired, or not the one that the broker knows. */
export const isForbidden = (error: unknown): error is BrokerError => isRefusal(error, 403);

/**
 * A command that tells the broker the principal in the Secret. The principal is piped, so that no list of processes
 * shows it.
 */
function replaceCommand(deployment: string, { names, capsule, secretName }: PrincipalRef): string {
  const read = `kubectl -n ${names.systemNamespace} get secret ${secretName} -o jsonpath='{.data.principal}' | base64 -d`;
  const write = `kubectl -n ${names.servicesNamespace} exec -i deploy/${deployment} -- node /app/admin.mjs replace-principal ${capsule}`;
  return `${read} | ${write}`;
}
