import { archive } from '../diagnostics/archive.ts';
import { collectionsOf } from '../diagnostics/collections.ts';
import { tar } from '../diagnostics/tar.ts';
import { kubectl, state, table } from '../html/parts.ts';
import { html } from '../html/template.ts';
import { Url } from '../html/url.ts';
import { Download, type Page, PageError } from '../http/outcome.ts';
import type { Route, Visit } from '../visit.ts';

/** Archives that are made at one time: each asks the API server for much. */
const AT_ONCE = 4;

/** A page that says what the archive would hold, and the archive. */
export function diagnosticsRoutes(now: () => Date): readonly Route[] {
  let under = 0;
  return [
    { method: 'GET', path: '/diagnostics', under: 'diagnostics', run: diagnosticsPage },
    {
      method: 'GET',
      path: '/diagnostics/archive',
      under: 'diagnostics',
      async run(visit) {
        if (under >= AT_ONCE)
          throw new PageError(503, 'Others make an archive now', 'Try again in a minute.');
        // An API server that is away is told on a page; once the file is on its way there can be none.
        await allowed(visit);
        return new Download(
          `space-${visit.names.space}-diagnostics.tar.gz`,
          counted(tar(archive(visit, now), now())),
        );
      },
    },
  ];

  async function* counted(bytes: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    under += 1;
    try {
      yield* bytes;
    } finally {
      under -= 1;
    }
  }
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
      ? state('good', 'in it')
      : html`${state('warn', 'left out')} <span class="quiet">you may not list these</span>`,
  ]);
  const main = html`<p class="lead">One archive of how the Space is, for whoever helps you: what you may read yourself, cut down to a closed list of fields.</p>
<p><a class="button" href="${Url.path`/diagnostics/archive`}">Download the archive</a></p>
<h2>What is in it</h2><p>Names, times, versions, images, counts, states and reasons; hosts that manifests ask for. Of Capsules’ namespaces also pods, Events, walls and quota, those that are not Ready first.</p>
<h2>What is never in it</h2><p>Secrets, values of environments, arguments, annotations, messages and notes, and of manifests anything but id, version and hosts. Programs’ logs and metrics are not in it either: to fetch them takes rights on pods that reach further.</p>
<details><summary>Lists that it is made from</summary>${table(['Objects', 'Where', 'For you'], rows)}</details>
${kubectl(
  '# These hold more than the archive: look at them before you hand them on.',
  `kubectl -n ${namespace} get capsules,assistants,events -o yaml`,
  `kubectl -n ${systemNamespace} get deployments,pods,networkpolicies,events -o yaml`,
  `kubectl -n ${servicesNamespace} get deployments,pods,networkpolicies,events -o yaml`,
  'kubectl get nodes,runtimeclasses -o yaml',
)}`;
  return { title: 'Diagnostics', main };
}
