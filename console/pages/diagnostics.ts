import { SharedSlots } from '@space/broker-kit';
import { archive } from '../diagnostics/archive.ts';
import { collectionsOf } from '../diagnostics/collections.ts';
import { tar } from '../diagnostics/tar.ts';
import { kubectl, state, table } from '../html/parts.ts';
import { html } from '../html/template.ts';
import { Url } from '../html/url.ts';
import { Download, type Page, PageError } from '../http/outcome.ts';
import type { Route, Visit } from '../visit.ts';

/** Archives that are created at the same time; each needs many requests to the API server. */
const AT_ONCE = { total: 4, perKey: 1 };

/** A page that lists the content of the archive, and the archive itself. */
export function diagnosticsRoutes(now: () => Date): readonly Route[] {
  const slots = new SharedSlots(AT_ONCE);
  return [
    { method: 'GET', path: '/diagnostics', under: 'diagnostics', run: diagnosticsPage },
    {
      method: 'GET',
      path: '/diagnostics/archive',
      under: 'diagnostics',
      async run(visit) {
        const giveBack = slots.tryTake(visit.session.user);
        if (giveBack === undefined)
          throw new PageError(
            503,
            'An archive is being created',
            'One of yours, or four of other people. Try again in a minute.',
          );
        try {
          // If the API server does not answer, a page says so; once the file has begun that is no longer possible.
          await allowed(visit);
        } catch (error) {
          giveBack();
          throw error;
        }
        const name = `space-${visit.names.space}-diagnostics.tar.gz`;
        return new Download(name, tar(archive(visit, now), now()), giveBack);
      },
    },
  ];
}

/** Whether the person may list each of the collections. */
const allowed = (visit: Visit): Promise<readonly boolean[]> =>
  Promise.all(collectionsOf(visit.names).map(({ act }) => visit.may({ ...act, verb: 'list' })));

async function diagnosticsPage(visit: Visit): Promise<Page> {
  const { namespace, systemNamespace, servicesNamespace } = visit.names;
  const all = collectionsOf(visit.names);
  const mayList = await allowed(visit);
  const rows = all.map(({ act }, index) => [
    act.resource,
    act.namespace ?? 'the cluster',
    mayList[index] === true
      ? state('good', 'included')
      : html`${state('warn', 'left out')} <span class="quiet">you may not list these</span>`,
  ]);
  const main = html`<p class="lead">An archive of the state of the Space for whoever helps you: what you may read yourself, reduced to a fixed list of fields.</p>
<p><a class="button" href="${Url.path`/diagnostics/archive`}">Download the archive</a></p>
<h2>What is in it</h2><p>Names, times, versions, images, counts, states and reasons; hosts that manifests ask for. For Capsules also the pods, Events, network policies and quotas of their namespaces; Capsules that are not Ready come first.</p>
<h2>What is never in it</h2><p>Secrets, values of environment variables, arguments, annotations, messages and notes, and any part of a manifest except id, version and hosts. The programs’ logs and metrics are not in it either, since they require further rights on pods.</p>
<details><summary>Lists in the archive</summary>${table(['Objects', 'Where', 'For you'], rows)}</details>
${kubectl(
  '# These contain more than the archive: review them before you share them.',
  `kubectl -n ${namespace} get capsules,assistants,events -o yaml`,
  `kubectl -n ${systemNamespace} get deployments,pods,networkpolicies,events -o yaml`,
  `kubectl -n ${servicesNamespace} get deployments,pods,networkpolicies,events -o yaml`,
  'kubectl get nodes,runtimeclasses -o yaml',
)}`;
  return { title: 'Diagnostics', main };
}
