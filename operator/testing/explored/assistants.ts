/** The operator's work on an Assistant that lives, in the order of assistant/controller.ts and claim.ts. */
import type { Step } from '../../../testing/explore.ts';
import { assistantGoes, left, type Own, takeAway } from './assistant-ends.ts';
import { type Answer, jobOf } from './broker.ts';
import type { End, Go } from './capsule-ends.ts';
import { IDLE, LATE, put, type Rules, step } from './rules.ts';
import type { State, Url, Worker } from './state.ts';

export function beginAssistant(rules: Rules, state: State): Worker | undefined {
  const { capsule, assistant, deployment, pod } = state;
  if (!assistant) return undefined;
  const worker: Worker = { ...IDLE, of: 'assistant', capsule, assistant, deployment };
  if (assistant.deleted > 0)
    return assistant.finalizer ? takeAway(rules, { ...worker, assistant, pod }) : undefined;
  const stands = deployment?.owner === assistant.uid;
  return assistant.finalizer && assistant.ready && stands ? undefined : { ...worker, at: 'read facts' };
}

export function assistantStep(rules: Rules, state: State, slot: number, worker: Worker): Step<State> {
  const { assistant } = worker;
  const who = worker.of === 'orphan' ? 'orphan' : 'assistant';
  const name = `${slot === LATE ? 'late ' : ''}operator, ${who} ${assistant?.uid}: ${worker.at}`;
  const go = (to: State, next: Worker | undefined, wrong?: string) => step(name, put(to, slot, next), wrong);
  const end = (why: string) => step(`${name}: ${why}`, put(state, slot, undefined));
  if (!assistant) return end('nothing to do');
  const own = { ...worker, assistant };
  const taken = lives(rules, state, slot, own, go, end) ?? assistantGoes(rules, state, slot, own, go, end);
  if (taken === undefined) throw new Error(`no such step: ${worker.at}`);
  return taken;
}

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

/** What an Assistant's work does with an answer of the broker. */
export function assistantHears(rules: Rules, worker: Own, answer: Answer, url: Url): Worker | undefined {
  if (worker.at === 'wait create') return answer === 'ok' ? { ...worker, url, at: 'write url' } : undefined;
  const done = answer === 'ok' || answer === 'absent';
  const away = rules.is('takes a broker that is away for one that has dropped');
  return done || away ? left(worker) : undefined;
}
