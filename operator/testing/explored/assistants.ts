/** The operator's work on an Assistant, in the order of assistant/controller.ts, claim.ts and finalize.ts. */
import type { Step } from '../../../testing/explore.ts';
import { type Answer, jobOf } from './broker.ts';
import { dropIsOrdered, IDLE, keeps, LATE, opens, put, type Rules, step } from './rules.ts';
import type { Running, State, Thing, Url, Worker } from './state.ts';

export function beginAssistant(rules: Rules, state: State): Worker | undefined {
  const { capsule, assistant, deployment, pod } = state;
  if (!assistant) return undefined;
  const worker: Worker = { ...IDLE, of: 'assistant', capsule, assistant, deployment };
  if (assistant.deleted > 0)
    return assistant.finalizer ? takeAway(rules, { ...worker, assistant, pod }) : undefined;
  const stands = deployment?.owner === assistant.uid;
  return assistant.finalizer && assistant.ready && stands ? undefined : { ...worker, at: 'read facts' };
}

/** Its Deployment goes first, and while anything of it runs nothing else does. */
export function takeAway({ is }: Rules, worker: Worker & { assistant: Thing }): Worker | undefined {
  const { assistant, deployment, pod } = worker;
  const mine = (one: Running | undefined) => one?.owner === assistant.uid && !one.stripped;
  if (mine(deployment)) return { ...worker, at: 'delete deployment' };
  if (mine(pod) && !is('drops before its pods are gone')) return undefined;
  return { ...worker, deployment: undefined, pod: undefined, at: 'read claim' };
}

export function assistantStep(rules: Rules, state: State, slot: number, worker: Worker): Step<State> {
  const { assistant } = worker;
  const who = worker.of === 'orphan' ? 'orphan' : 'assistant';
  const name = `${slot === LATE ? 'late ' : ''}operator, ${who} ${assistant?.uid}: ${worker.at}`;
  const go = (to: State, next: Worker | undefined, wrong?: string) => step(name, put(to, slot, next), wrong);
  const end = (why: string) => step(`${name}: ${why}`, put(state, slot, undefined));
  if (!assistant) return end('nothing to do');
  const own = { ...worker, assistant };
  const taken = lives(rules, state, slot, own, go, end) ?? goes(rules, state, slot, own, go, end);
  if (taken === undefined) throw new Error(`no such step: ${worker.at}`);
  return taken;
}

type Go = (to: State, next: Worker | undefined, wrong?: string) => Step<State>;
type End = (why: string) => Step<State>;
type Own = Worker & { readonly assistant: Thing };

function lives(rules: Rules, state: State, slot: number, worker: Own, go: Go, end: End) {
  const { is, operator } = rules;
  const { assistant } = worker;
  switch (worker.at) {
    case 'read facts': {
      const claim = state.namespace && state.claim;
      const { accepted } = operator.plan({ ...worker, claim });
      if (!accepted) return end('not accepted');
      const known = { ...worker, claim };
      if (!assistant.finalizer) return go(state, { ...known, at: 'add assistant finalizer' });
      return go(state, claimed(rules, known));
    }
    case 'add assistant finalizer': {
      if (state.assistant !== assistant) return end('conflict');
      const changed = { ...assistant, finalizer: true };
      return go({ ...state, assistant: changed }, claimed(rules, { ...worker, assistant: changed }));
    }
    case 'create claim': {
      if (!state.namespace || state.namespace.going || state.claim) return end('refused');
      const claim = { owner: assistant.uid, retained: false, url: 0 };
      return go({ ...state, claim }, addressed({ ...worker, claim }));
    }
    case 'take up': {
      if (!worker.claim || state.claim !== worker.claim) return end('conflict');
      const claim = { owner: assistant.uid, retained: false, url: 0 };
      return go({ ...state, claim }, addressed({ ...worker, claim }));
    }
    case 'send create': {
      if (!state.principal) return end('there is no principal');
      const jobs = [...state.jobs, jobOf('create', state.principal.token, slot, { for: assistant.uid })];
      return go({ ...state, jobs }, { ...worker, at: 'wait create' });
    }
    case 'write url': {
      const seen = is('writes a URL over whatever claim is there') || state.claim === worker.claim;
      if (!seen || !state.claim) return end('conflict');
      const claim = { ...state.claim, url: worker.url };
      const next = addressed({ ...worker, claim });
      return go({ ...state, claim, issued: given(state, claim) }, next, givenTwice(state, claim));
    }
    case 'write deployment': {
      const { namespace } = state;
      if (!namespace || namespace.going || namespace.owner !== worker.capsule?.uid) return end('refused');
      const deployment = { owner: assistant.uid, url: worker.url, stripped: false, stray: slot === LATE };
      const to = { ...state, deployment, documents: assistant.uid };
      const other = slot !== LATE && issuedTo(state, worker.url, assistant.uid);
      const wrong = other ? 'two Assistants have one URL' : undefined;
      return go(to, told({ ...worker, deployment }), wrong);
    }
    case 'tell assistant ready': {
      if (state.assistant?.uid !== assistant.uid) return end('it is gone');
      const word = operator.policy(assistant, worker.capsule);
      return go({ ...state, assistant: { ...state.assistant, ready: true, told: word } }, undefined);
    }
    default:
      return undefined;
  }
}

function claimed({ operator }: Rules, worker: Own): Worker | undefined {
  const { claim } = worker;
  if (!operator.plan(worker).run) return undefined;
  if (!claim) return { ...worker, at: 'create claim' };
  return operator.isRetained(claim) ? { ...worker, at: 'take up' } : addressed(worker);
}

function addressed(worker: Own): Worker | undefined {
  const { claim, deployment, assistant } = worker;
  if (!claim || claim.url === 0) return { ...worker, at: 'send create' };
  const next = { ...worker, claim: undefined, url: claim.url };
  const stands = deployment?.owner === assistant.uid && deployment.url === claim.url;
  return stands ? told(next) : { ...next, at: 'write deployment' };
}

function told(worker: Own): Worker | undefined {
  return worker.assistant.ready
    ? undefined
    : { ...worker, claim: undefined, deployment: undefined, url: 0, at: 'tell assistant ready' };
}

const given = ({ issued }: State, { url, owner }: { url: Url; owner: number }) =>
  issued.map((one) => (one.url === url ? { ...one, to: owner } : one));

/** Whether it is in another's claim. */
const issuedTo = ({ issued }: State, url: Url, owner: number) =>
  issued.some((one) => one.url === url && one.to !== 0 && one.to !== owner);

function givenTwice(state: State, { url, owner }: { url: Url; owner: number }) {
  if (issuedTo(state, url, owner)) return 'two Assistants have one URL';
  const { issued, claim } = state;
  const had = issued.findIndex((known) => known.url === claim?.url);
  return had > issued.findIndex((known) => known.url === url)
    ? 'an older URL goes over a newer one'
    : undefined;
}

function goes(rules: Rules, state: State, slot: number, worker: Own, go: Go, end: End) {
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
    case 'retain claim': {
      if (!worker.claim || state.claim !== worker.claim) return end('conflict');
      const { row } = state;
      const issued = state.issued.map((one) => (one.to === assistant.uid ? { ...one, to: 0 } : one));
      const kept = row?.state === 'ready' && !dropIsOrdered(state) ? row.life : state.kept;
      return go({ ...state, claim: { ...worker.claim, retained: true, url: 0 }, issued, kept }, last(worker));
    }
    case 'remove documents': {
      const documents = state.documents === assistant.uid ? 0 : state.documents;
      const next = { ...worker, at: 'remove assistant finalizer' };
      return go({ ...state, documents }, worker.of === 'orphan' ? undefined : next);
    }
    case 'remove assistant finalizer':
      return gone(rules, state, worker, go, end);
    default:
      return undefined;
  }
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
  const next = { ...worker, fate, capsule: worker.capsule };
  if (fate === 'grace') return go(state, worker.claim?.url ? { ...next, at: 'close claim' } : undefined);
  if (fate === 'retain') return go(state, left(next));
  const others = state.claim && state.claim.owner !== assistant.uid;
  const wrong = () => {
    if (keeps(state, assistant, state.assistant)) return 'data is to be dropped that is kept';
    return others ? 'data of another Assistant is to be dropped' : undefined;
  };
  return go({ ...state, kept: 0 }, { ...next, at: 'send drop app' }, wrong());
}

function left(worker: Own): Worker | undefined {
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

function gone({ is, operator }: Rules, state: State, worker: Own, go: Go, end: End): Step<State> {
  const { assistant } = worker;
  const { assistant: live } = state;
  const seen = is('takes the finalizer off whatever is there') ? live !== undefined : live === assistant;
  if (!seen || !live) return end('conflict');
  if (live.deleted === 0) return go({ ...state, assistant: { ...live, finalizer: false } }, undefined);
  const stays = worker.fate === 'retain' || operator.stays(assistant, worker.capsule);
  const open = state.issued.some(({ to, url }) => to === live.uid && opens(state, url));
  const issued = state.issued.map((one) => (one.to === live.uid ? { ...one, to: 0 } : one));
  const wrong = open && !stays ? 'a deletion ends, and its data is open' : undefined;
  return go({ ...state, assistant: undefined, issued }, undefined, wrong);
}

/** What an Assistant's work does with an answer of the broker. */
export function assistantHears(rules: Rules, worker: Own, answer: Answer, url: Url): Worker | undefined {
  if (worker.at === 'wait create') return answer === 'ok' ? { ...worker, url, at: 'write url' } : undefined;
  const done = answer === 'ok' || answer === 'absent';
  const away = rules.is('takes a broker that is away for one that has dropped');
  return done || away ? left(worker) : undefined;
}
