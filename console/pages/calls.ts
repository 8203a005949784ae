import type { CallState } from '@space/contracts/egress';
import type { Manifest } from '@space/manifests';
import type { Call, GatewayCalls } from '../gateway/calls.ts';
import { hostName, moment, state, table, typed } from '../html/parts.ts';
import { type Html, html, type Value } from '../html/template.ts';
import type { AssistantView } from '../kubernetes/space.ts';
import type { Visit } from '../visit.ts';

/**
 * The meaning of a denied call for an administrator. States that are missing here were permitted, or failed for an
 * external reason.
 */
const DENIED: Partial<Record<CallState, string>> = {
  host_denied: 'its manifest does not name this host',
  address_denied: 'the name leads to an address that no public host has',
  route_denied: 'its manifest does not name this method and path for the stored input',
  ambiguous_target: 'two servers could read its path in two ways',
  slot_conflict: 'it sent a value of its own where the stored input goes',
  plain_http_denied: 'plain HTTP leaves no Capsule',
  input_suspended: 'the host told the value of the stored input too often',
  input_unavailable: 'the stored input has to be entered again',
  method_not_allowed: 'a method that no stored input may go with',
  rate_limited: 'it asked more often than it may',
  not_tls: 'it did not speak TLS in the tunnel',
  sni_mismatch: 'it asked for another host inside the tunnel',
  ech_denied: 'it hid the host inside the tunnel',
};
const FAILED: Partial<Record<CallState, string>> = {
  name_unresolved: 'nobody knows an address of the host',
  upstream_failed: 'the host gave no answer, or ended it',
  upstream_timeout: 'the host was too slow',
  upstream_untrusted: 'the host’s certificate is not to be believed',
  response_unscannable: 'the answer could not be searched for the value',
};
const WENT = new Set<CallState>(['ok', 'ended', 'open']);

/** Calls and denials by host, if the console knows the gateway and the manifest asks for access to the outside. */
export async function callsSection(visit: Visit, view: AssistantView, manifest: Manifest): Promise<Value> {
  if (visit.callsOf === undefined) return '';
  const told = await visit.callsOf(view);
  return html`<h2 id="calls">What it called</h2>${body(told, manifest)}`;
}

function body(told: GatewayCalls, manifest: Manifest): Html {
  const { calls, forgotten, since, replicas, silent } = told;
  if (since === undefined)
    return html`<p class="quiet">The egress gateway gave no answer: what it counted is not known now.</p>`;
  const places = Map.groupBy(calls, ({ host, input }) => `${host} ${input}`);
  const rows = [...places.values()].sort((a, b) => refusedIn(b) - refusedIn(a)).map(rowOf);
  const list =
    rows.length === 0
      ? html`<p>It has called nobody outside since the gateway began to count.</p>`
      : table(['Host', 'Went through', 'Refused', 'Failed', 'Last'], rows);
  const more =
    forgotten === 0 ? '' : html`<p>${forgotten} more calls, of which the gateway does not keep the host.</p>`;
  const missing = silent === 0 ? '' : ` ${silent} of ${replicas} replicas gave no answer: there may be more.`;
  return html`${list}${more}<p class="quiet">The gateway counts calls in its memory: those that have ended, and those that are open now. Its oldest replica has counted since ${moment(since)}; one that starts anew begins at zero.${missing}</p>${proposals(calls, manifest)}`;
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
    html`${first?.host === undefined ? 'an address, or another port' : hostName(first.host)}${first?.input === undefined ? '' : html` <span class="quiet">with ${first.input}</span>`}`,
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
    return html`<li><p>That it may reach ${hostName(host)}, in <code>network</code>:</p>${typed(`"allowed_hosts": ${JSON.stringify(all)}`)}</li>`;
  });
  const ofRoutes = [...new Set(routes)].map(
    (input) =>
      html`<li><p>That <code>${input}</code> goes with one more request, in <code>stored_inputs.${input}.routes</code>. The gateway keeps no paths, as they may hold what is nobody’s business; the author knows which:</p>${typed('{ "method": "METHOD", "path": "/PATH" }')}</li>`,
  );
  return html`<details><summary>Propose this to the author</summary>
<p class="quiet">The Assistant chose these names itself: pass on what you would let it reach. Only a new manifest can let it through, and a Capsule with <code>approval: manual</code> asks you again.</p>
<ul>${ofHosts}${ofRoutes}</ul></details>`;
}
