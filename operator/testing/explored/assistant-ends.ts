/** The operator's work on an Assistant that goes, in the order of assistant/finalize.ts and data.ts. */
import type { Step } from '../../../testing/explore.ts';
import { authority, jobOf } from './broker.ts';
import type { End, Go } from './capsule-ends.ts';
import { dropIsOrdered, keeps, keptLife, LATE, opens, type Rules } from './rules.ts';
import type { Running, State, Thing, Worker } from './state.ts';

export type Own = Worker & { readonly assistant: Thing };

/** Its Deployment goes first, and while anything of it runs nothing else does. */
export function takeAway({ is }: Rules, worker: Worker & { assistant: Thing }): Worker | undefined {
  const { assistant, deployment, pod } = worker;
  const mine = (one: Running | undefined) => one?.owner === assistant.uid && !one.stripped;
  if (mine(deployment)) return { ...worker, at: 'delete deployment' };
  if (mine(pod) && !is('drops before its pods are gone')) return undefined;
  return { ...worker, deployment: undefined, pod: undefined, at: 'read claim' };
}

export function assistantGoes(rules: Rules, state: State, slot: number, worker: Own, go: Go, end: End) {
  const { is, operator } = rules;
  const { assistant, capsule } = worker;
  switch (worker.at) {
    case 'delete deployment': {
      const there = state.deployment?.owner === assistant.uid;
      // The store still has what was deleted a moment ago.
      const next = is('drops before its pods are gone') ? ('read claim' as const) : undefined;
      return go(
        { ...state, deployment: there ? undefined : state.deployment },
        next && { ...worker, deployment: undefined, pod: undefined, at: next },
      );
    }
    case 'read claim': {
      const claim = state.namespace && state.claim;
      const known = { ...worker, claim };
      const rivals = worker.of === 'orphan' ? [] : [assistant];
      if (!operator.owns({ assistant, capsule, claim, rivals }) || operator.stays(assistant, capsule))
        return go(state, left(known));
      const blind = is('believes its store that no pod is left') || is('drops before its pods are gone');
      return go(state, { ...known, at: blind ? 'ask of assistant' : 'find pods' });
    }
    case 'find pods':
      return state.pod ? end('pods remain') : go(state, { ...worker, at: 'ask of assistant' });
    case 'ask of assistant':
      return asked(rules, state, worker, go);
    case 'ask of database':
      return go(state, left(isGone(rules, state) ? { ...worker, fate: 'drop' } : worker));
    case 'close claim': {
      if (!worker.claim || state.claim !== worker.claim) return end('conflict');
      return go({ ...state, claim: { ...worker.claim, url: 0 } }, undefined);
    }
    case 'send drop app': {
      const { principal } = state;
      if (!principal) return capsule ? end('there is no principal') : go(state, left(worker));
      const early = is('takes its finalizer off before the drop is answered');
      const job = jobOf('drop app', principal.token, early ? -1 : slot, { for: assistant.uid });
      const next = early ? left(worker) : { ...worker, at: 'wait drop app' };
      return go({ ...state, jobs: [...state.jobs, job] }, next);
    }
    case 'remove claim': {
      const same = state.claim?.owner === worker.claim?.owner;
      return go({ ...state, claim: same ? undefined : state.claim }, last(worker));
    }
    case 'retain claim':
      return letsGo(state, worker, go, end);
    case 'remove documents': {
      const documents = state.documents === assistant.uid ? 0 : state.documents;
      const next = { ...worker, at: 'remove assistant finalizer' };
      return go({ ...state, documents }, worker.of === 'orphan' ? undefined : next);
    }
    case 'remove assistant finalizer':
      return gone(rules, state, slot, worker, go, end);
    default:
      return undefined;
  }
}

/** From here on another may take the id up. */
function letsGo(state: State, worker: Own, go: Go, end: End): Step<State> {
  const { claim, assistant } = worker;
  if (!claim || state.claim !== claim) return end('conflict');
  const issued = state.issued.map((one) => (one.to === assistant.uid ? { ...one, to: 0 } : one));
  const kept = dropIsOrdered(state) ? state.kept : keptLife(state);
  return go({ ...state, claim: { ...claim, retained: true, url: 0 }, issued, kept }, last(worker));
}

function asked({ is, operator }: Rules, state: State, worker: Own, go: Go): Step<State> {
  const { assistant } = worker;
  const live = is('goes by the policy in its store') ? assistant : state.assistant;
  const capsule = is('goes by the policy in its store') ? worker.capsule : state.capsule;
  const orphaned = worker.of === 'orphan';
  const fate =
    orphaned && is('takes an absence for an order to drop')
      ? 'drop'
      : operator.fate(state.now, state.grace, assistant, live, capsule);
  const next = { ...worker, fate };
  if (fate === 'grace') return go(state, worker.claim?.url ? { ...next, at: 'close claim' } : undefined);
  if (fate === 'retain') {
    const blind = orphaned || is('tells that an Assistant is kept that is dropped');
    return go(state, blind ? left(next) : { ...next, at: 'ask of database' });
  }
  const others = state.claim && state.claim.owner !== assistant.uid;
  const wrong = () => {
    if (keeps(state, assistant, state.assistant)) return 'data is to be dropped that is kept';
    return others ? 'data of another Assistant is to be dropped' : undefined;
  };
  return go({ ...state, kept: 0 }, { ...next, at: 'send drop app' }, wrong());
}

/** True if the broker no longer accepts the Capsule's principal. */
const isGone = (rules: Rules, state: State) =>
  authority(rules, state, state.principal?.token ?? 0, 'apps') !== undefined && state.row?.state !== 'ready';

export function left(worker: Own): Worker | undefined {
  const { claim, assistant, fate } = worker;
  if (claim?.owner === assistant.uid) {
    if (fate !== 'retain') return { ...worker, at: 'remove claim' };
    if (!claim.retained) return { ...worker, at: 'retain claim' };
  }
  return last(worker);
}

function last(worker: Own): Worker | undefined {
  return { ...worker, claim: undefined, at: 'remove documents' };
}

function gone(rules: Rules, state: State, slot: number, worker: Own, go: Go, end: End): Step<State> {
  const { is, operator } = rules;
  const { assistant } = worker;
  const { assistant: live } = state;
  const seen = is('takes the finalizer off whatever is there') ? live !== undefined : live === assistant;
  if (!seen || !live) return end('conflict');
  if (live.deleted === 0) return go({ ...state, assistant: { ...live, finalizer: false } }, undefined);
  const stays = operator.stays(assistant, worker.capsule);
  const open = state.issued.some(({ to, url }) => to === live.uid && opens(state, url));
  const issued = state.issued.map((one) => (one.to === live.uid ? { ...one, to: 0 } : one));
  const to: State = { ...state, assistant: undefined, issued };
  // A former leader guarantees nothing: its Capsule may say otherwise by now, and the next leader reports what it drops.
  if (worker.fate === 'retain' && slot !== LATE) {
    const wrong = isGone(rules, state) ? 'an Assistant goes as kept, and its data is dropped' : undefined;
    return go({ ...to, kept: keptLife(state) }, undefined, wrong);
  }
  return go(
    to,
    undefined,
    open && !stays && worker.fate !== 'retain' ? 'a deletion ends, and its data is open' : undefined,
  );
}
