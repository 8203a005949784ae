import { Secret } from '@space/broker-kit';
import { isId } from '@space/manifests';
import * as z from 'zod';
import { notFound, PageError } from '../http/outcome.ts';
import { apiPath, type Kubernetes, KubernetesError } from '../kubernetes/client.ts';
import type { Visit } from '../visit.ts';
import { AwayError } from './client.ts';

const secret = z.object({ data: z.object({ principal: z.string() }) });
const principal = z.string().regex(/^spc_osp_[A-Za-z0-9_-]{43}$/);

/**
 * Reads the token by which a Capsule authenticates to the object-storage broker. The console reads it with its own
 * account, and only after the API server has confirmed that the person has the verb `credentials` on this Capsule; no
 * page receives it.
 */
export function principals(kubernetes: Kubernetes, own: () => Secret<string>) {
  return async (visit: Visit, capsule: string): Promise<Secret<string>> => {
    if (!isId(capsule)) throw notFound();
    const { namespace, systemNamespace } = visit.names;
    const act = {
      group: 'platform.space',
      resource: 'capsules',
      namespace,
      name: capsule,
      verb: 'credentials',
    };
    if (!(await visit.may(act)))
      throw new PageError(
        403,
        'You may not do this',
        `This requires the verb credentials on the Capsule ${capsule}. Nothing was changed.`,
      );
    const path = apiPath`/api/v1/namespaces/${systemNamespace}/secrets/${`capsule-${capsule}-objectstore`}`;
    try {
      const { data } = secret.parse(await kubernetes.ask({ token: own() }, { path }));
      return new Secret(principal.parse(Buffer.from(data.principal, 'base64').toString('utf8').trim()));
    } catch (error) {
      if (!(error instanceof KubernetesError || error instanceof z.ZodError)) throw error;
      // An error of the schema may quote the value.
      const cause = error instanceof KubernetesError ? error : new AwayError('NOT_IN_FORM');
      throw new PageError(503, 'The credential sets cannot be shown now', whyUnread(visit.names, cause), {
        cause,
      });
    }
  };
}

function whyUnread({ space, systemNamespace }: Visit['names'], cause: Error): string {
  if (!(cause instanceof KubernetesError && cause.status === 403))
    return 'The condition ObjectStoreReady of the Capsule says why it has no principal yet.';
  // The API server gives the same answer if its Role lacks the name and if the Role is gone.
  return `The console may not read this Capsule’s principal. There is no Capsule of this name, or the Role ${space}-console-principals in ${systemNamespace} does not name it: the operator writes it there before ObjectStoreReady is true. If somebody deleted that Role, helm upgrade creates it again.`;
}
