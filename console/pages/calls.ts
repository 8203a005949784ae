import type { CallState } from '@space/contracts/egress';
import type { Manifest } from '@space/manifests';
import type { Call, GatewayCalls } from '../gateway/calls.ts';
import { hostName, moment, state, table, typed } from '../html/parts.ts';
import { type Html, html, type Value } from '../html/template.ts';
import { type AssistantView, idOf } from '../kubernetes/space.ts';
import type { Visit } from '../visit.ts';

/**
 * The meaning of a denied call for an administrator. States that are missing here were permitted, or failed for an
 * external reason.
 */
const DENIED: Partial<Record<CallState, string>> = {
  host_denied: 'its manifest does not name this host',
  address_denied: 'the name resolves to an address that is not public',
  route_denied: 'its manifest does not name this method and path for the stored input',
  ambiguous_target: 'two servers could interpret its path differently',
  slot_conflict: 'it sent its own value where the stored input is put',
  plain_http_denied: 'plain HTTP is not allowed',
  input_suspended: 'the host returned the value of the stored input too often',
  input_unavailable: 'the stored input has to be entered again',
  method_not_allowed: 'the method is not allowed with a stored input',
  rate_limited: 'it sent more requests than it may',
  not_tls: 'it did not use TLS in the tunnel',
  sni_mismatch: 'it asked for another host inside the tunnel',
  ech_denied: 'it encrypted the name of the host inside the tunnel',
};
const FAILED: Partial<Record<CallState, string>> = {
  name_unresolved: 'the name of the host cannot be resolved',
  upstream_failed: 'the host did not answer, or closed the connection',
  upstream_timeout: 'the host was too slow',
  upstream_untrusted: 'the host’s certificate is not trusted',
  response_unscannable: 'the answer could not be searched for the value',
};
const WENT = new Set<CallState>(['ok', 'ended', 'open']);

/** Calls and denials by host, if the console knows the gateway and the manifest asks for access to the outside. */
export async function callsSection(visit: Visit, view: AssistantView, manifest: Manifest): Promise<Value> {
  if (visit.callsOf === undefined) return '';
  const { metadata, spec } = view;
  const told = await visit.callsOf({ uid: metadata.uid, capsule: spec.capsule, id: idOf(view) });
  return html`<h2 id="calls">Calls to the outside</h2>${body(told, manifest)}`;
}

function body(told: GatewayCalls, manifest: Manifest): Html {
  const { calls, forgotten, since, replicas, silent } = told;
  if (since === undefined)
    return html`<p class="quiet">The egress gateway did not answer, so its calls are not known.</p>`;
  const places = Map.groupBy(calls, ({ host, input }) => `${host} ${input}`);
  const rows = [...places.values()].sort((a, b) => refusedIn(b) - refusedIn(a)).map(rowOf);
  const list =
    rows.length === 0
      ? html`<p>It has called no host outside since the gateway began to count.</p>`
      : table(['Host', 'Succeeded', 'Refused', 'Failed', 'Last'], rows);
  const more =
    forgotten === 0 ? '' : html`<p>${forgotten} more calls, whose hosts the gateway does not store.</p>`;
  const missing =
    silent === 0 ? '' : ` ${silent} of ${replicas} replicas did not answer, so there may be more calls.`;
  return html`${list}${more}<p class="quiet">The gateway counts calls in memory: those that have ended and those that are open. Its oldest replica has counted since ${moment(since)}; a replica that restarts begins at zero.${missing}</p>${proposals(calls, manifest)}`;
}

const isRefusal = ({ ending }: Call) => DENIED[ending] !== undefined;
const countOf = (calls: readonly Call[]) => calls.reduce((sum, { count }) => sum + count, 0);
const refusedIn = (calls: readonly Call[]) => countOf(calls.filter(isRefusal));

function rowOf(calls: readonly Call[]): readonly Value[] {
  const [first] = calls;
  const refused = calls.filter(isRefusal);
  const failed = calls.filter((call) => !isRefusal(call) && !WENT.has(call.ending));
  const last = calls.map(({ last_at }) => last_at).sort();
  return [
    html`${first?.host === undefined ? 'an IP address, or another port' : hostName(first.host)}${first?.input === undefined ? '' : html` <span class="quiet">with ${first.input}</span>`}`,
    went(calls),
    reasons('bad', refused, DENIED),
    reasons('warn', failed, FAILED),
    moment(last.at(-1) ?? ''),
  ];
}

function went(calls: readonly Call[]): string {
  const open = countOf(calls.filter(({ ending }) => ending === 'open'));
  const all = countOf(calls.filter(({ ending }) => WENT.has(ending)));
  if (all === 0) return '–';
  return open === 0 ? String(all) : `${all}, ${open} of them open now`;
}

function reasons(
  tone: 'bad' | 'warn',
  calls: readonly Call[],
  says: Partial<Record<CallState, string>>,
): Value {
  if (calls.length === 0) return '–';
  const lines = calls.map(({ ending, count }) => {
    const times = calls.length === 1 ? '' : `${count} ×: `;
    return html`<li>${times}${says[ending] ?? ending.replaceAll('_', ' ')} <code class="code">${ending}</code></li>`;
  });
  return html`${state(tone, String(countOf(calls)))}<ul class="reasons">${lines}</ul>`;
}

/** What the author would have to add to the manifest; nothing here permits anything. */
function proposals(calls: readonly Call[], manifest: Manifest): Value {
  const hosts = calls.flatMap(({ host, input, ending }) =>
    ending === 'host_denied' && input === undefined && host !== undefined ? [host] : [],
  );
  const routes = calls.flatMap(({ input, ending }) =>
    ending === 'route_denied' && input !== undefined ? [input] : [],
  );
  if (hosts.length + routes.length === 0) return '';
  const ofHosts = [...new Set(hosts)].map((host) => {
    const all = [...manifest.network.allowed_hosts, host];
    return html`<li><p>To allow ${hostName(host)}, in <code>network</code>:</p>${typed(`"allowed_hosts": ${JSON.stringify(all)}`)}</li>`;
  });
  const ofRoutes = [...new Set(routes)].map(
    (input) =>
      html`<li><p>To allow one more request with <code>${input}</code>, in <code>stored_inputs.${input}.routes</code>. The gateway does not store paths, which may be confidential; the author knows the path:</p>${typed('{ "method": "METHOD", "path": "/PATH" }')}</li>`,
  );
  return html`<details><summary>Propose this to the author</summary>
<p class="quiet">The Assistant chose these names itself, so propose only what you would allow. Only a new manifest can allow it, and in a Capsule with <code>approval: manual</code> it needs approval again.</p>
<ul>${ofHosts}${ofRoutes}</ul></details>`;
}
