import { foreign, kubectl } from '../html/parts.ts';
import { type Html, html } from '../html/template.ts';
import { Url } from '../html/url.ts';
import { KubernetesError } from '../kubernetes/client.ts';
import type { SpaceNames } from '../visit.ts';
import { PageError } from './outcome.ts';

/** What a person is told about an error. For an unknown type of error only its trace id is shown. */
export function explain(error: unknown): PageError {
  if (error instanceof PageError) return error;
  if (error instanceof KubernetesError) return explainKubernetes(error);
  return new PageError(
    500,
    'The console failed',
    'It is not known whether the change took effect: open the page again. The log has more under the number below.',
    { cause: error },
  );
}

function explainKubernetes(error: KubernetesError): PageError {
  const { status, sentence } = error;
  const options = { cause: error, ...(sentence === '' ? {} : { quoted: sentence }) };
  switch (status) {
    case 403:
      return new PageError(
        403,
        'You may not do this',
        'The API server refused it. Nothing was changed.',
        options,
      );
    case 404:
      return new PageError(404, 'Not found', 'It was deleted, or the address is wrong.', options);
    case 409:
      return new PageError(
        409,
        'Somebody else changed it',
        'It was changed after you opened the page, so your change was not made. Open the page again.',
        options,
      );
    case 400:
    case 422:
      return new PageError(422, 'The API server rejected it', 'Nothing was changed.', options);
    default:
      return new PageError(
        503,
        'The API server is unavailable',
        'It did not answer, or could not process the request. Try again in a moment; your change may have taken effect.',
        options,
      );
  }
}

/** Names in `kubectl` commands that ask for the same: the Space's namespace, and that of the console. */
type Names = Pick<SpaceNames, 'space' | 'namespace' | 'systemNamespace'>;

/** Commands that show more: the person's own rights, the objects, or the console's log. */
function commandsFor(
  { status }: PageError,
  traceId: string,
  { space, namespace, systemNamespace }: Names,
): readonly string[] {
  if (status === 403) return [`kubectl -n ${namespace} auth can-i --list`];
  if (status < 500) return [`kubectl -n ${namespace} get capsules,assistants -o wide`];
  return [
    'kubectl get --raw /readyz',
    `kubectl -n ${systemNamespace} logs deployment/${space}-console --since 10m | grep ${traceId}`,
  ];
}

/** `back` links to the form that was sent. */
export function errorBody(error: PageError, traceId: string, names: Names, back?: Url): Html {
  const said =
    error.quoted === undefined
      ? ''
      : html`<h2>What the API server said</h2><pre>${foreign(error.quoted, 2_000)}</pre>`;
  return html`<p class="lead">${error.advice}</p>${said}
<p>${back === undefined ? '' : html`<a href="${back}">Back to the form</a> · `}<a href="${Url.path`/`}">To Repairs</a></p><p class="quiet">Number of this request: <code>${traceId}</code></p>
${kubectl(...commandsFor(error, traceId, names))}`;
}
