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
    'Nothing is known of whether the act took effect: look at the page again. The log has more under the number below.',
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
      return new PageError(
        404,
        'There is no such thing',
        'It was taken away, or the address is mistyped.',
        options,
      );
    case 409:
      return new PageError(
        409,
        'Somebody was faster',
        'It was changed since you looked. Nothing was changed by you: look at it again.',
        options,
      );
    case 400:
    case 422:
      return new PageError(422, 'The API server did not take it', 'Nothing was changed.', options);
    default:
      return new PageError(
        503,
        'The API server is away',
        'It gave no answer, or could not do it now. Try again in a moment; what you did may have taken effect.',
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
