/** What administrators do, what the cluster does by itself, and what time does. */
import type { Step } from '../../../testing/explore.ts';
import type { Bounds } from './bounds.ts';
import { dropIsOrdered, keeps, type Rules, step } from './rules.ts';
import { DROP, RETAIN, SILENT, type State, type Thing } from './state.ts';

const spend = ({ left }: State, what: keyof Bounds): Bounds => ({ ...left, [what]: left[what] - 1 });

export function administrators(rules: Rules, state: State): Step<State>[] {
  return [
    ...applies(rules, state),
    ...deletes(state),
    ...says(state),
    ...forces(state),
    ...graceOf(rules, state),
    ...marks(state),
  ];
}

function applies({ bounds }: Rules, state: State): Step<State>[] {
  const { capsule, assistant, left } = state;
  const made = (uid: number): Thing => ({
    ...{ uid, finalizer: false, deleted: 0, word: SILENT, ready: false, told: SILENT },
  });
  const steps: Step<State>[] = [];
  if (!capsule && left.capsules > 0) {
    const to = { ...state, left: spend(state, 'capsules') };
    steps.push(step('a Capsule is applied', { ...to, capsule: made(bounds.capsules - left.capsules + 1) }));
  }
  if (!assistant && left.assistants > 0) {
    const to = { ...state, left: spend(state, 'assistants') };
    const uid = bounds.assistants - left.assistants + 1;
    steps.push(step('an Assistant is applied', { ...to, assistant: made(uid) }));
  }
  return steps;
}

function deletes(state: State): Step<State>[] {
  const steps: Step<State>[] = [];
  for (const kind of ['capsule', 'assistant'] as const) {
    const one = state[kind];
    if (!one || one.deleted > 0) continue;
    const to = one.finalizer ? { ...one, deleted: state.now + 1 } : undefined;
    steps.push(step(`the ${kind} is deleted`, { ...state, [kind]: to }));
  }
  return steps;
}

function says(state: State): Step<State>[] {
  if (state.left.words === 0) return [];
  const left = spend(state, 'words');
  return (['capsule', 'assistant'] as const).flatMap((kind) => {
    const one = state[kind];
    if (!one) return [];
    return ([DROP, RETAIN] as const)
      .filter((word) => word !== one.word)
      .map((word) => {
        const to = { ...state, left, [kind]: { ...one, word } };
        const said = word === RETAIN ? 'Retain' : 'Drop';
        return step(`the ${kind} is told ${said}`, { ...to, kept: promised(to) });
      });
  });
}

/** Data in deletion is guaranteed to come back if `Retain` is set in time. */
function promised(state: State): number {
  const { assistant, capsule, claim, row } = state;
  if (!assistant || assistant.deleted === 0) return state.kept;
  if (!keeps(state, assistant, assistant)) return 0;
  const capsuleKeeps = !capsule || capsule.deleted === 0 || capsule.word === RETAIN;
  const own = claim?.owner === assistant.uid && row?.state === 'ready';
  const retained = keeps({ ...state, now: Number.POSITIVE_INFINITY }, assistant, assistant);
  return own && retained && capsuleKeeps && !dropIsOrdered(state) ? row.life : state.kept;
}

function forces(state: State): Step<State>[] {
  const { left, pod } = state;
  const steps: Step<State>[] = [];
  for (const kind of ['capsule', 'assistant'] as const)
    if (left.forced > 0 && state[kind] && state[kind].deleted > 0)
      steps.push(
        step(`the finalizer of the ${kind} is taken off by force`, {
          ...{ ...state, [kind]: undefined, left: spend(state, 'forced') },
        }),
      );
  if (left.stripped > 0 && pod && !pod.stripped)
    steps.push(
      step('the pod loses its labels and annotations', {
        ...{ ...state, pod: { ...pod, stripped: true }, left: spend(state, 'stripped') },
      }),
    );
  return steps;
}

function graceOf({ bounds }: Rules, state: State): Step<State>[] {
  if (state.left.graces === 0) return [];
  const grace = state.grace === 0 ? bounds.grace : 0;
  const to = { ...state, grace, left: spend(state, 'graces') };
  return [step(`the grace is ${grace} hours from now on`, to)];
}

/** The broker's administrator asks for another password, and old tombstones go. */
function marks(state: State): Step<State>[] {
  const { left, row, register } = state;
  const steps: Step<State>[] = [];
  if (left.rotations > 0 && row?.state === 'ready' && !row.due)
    steps.push(
      step('a rotation is marked', { ...state, row: { ...row, due: true }, left: spend(state, 'rotations') }),
    );
  // An epoch is what keeps URLs apart from here on: nobody knows the last generation any more.
  if (left.prunes > 0 && row?.state === 'dropped' && register?.state !== 'dropping')
    steps.push(
      step('the tombstone is deleted as old', {
        ...{ ...state, row: undefined, high: 0, left: spend(state, 'prunes') },
      }),
    );
  return steps;
}

/** Deployments become pods, and what is deleted goes. */
export function cluster(state: State): Step<State>[] {
  const { namespace, deployment, pod, claim } = state;
  const steps: Step<State>[] = [];
  if (namespace?.going && (deployment || claim || state.documents > 0))
    steps.push(
      step('what is in the namespace goes', {
        ...state,
        deployment: undefined,
        claim: undefined,
        documents: 0,
      }),
    );
  if (pod && (deployment?.owner !== pod.owner || deployment.url !== pod.url))
    steps.push(step('the pod ends', { ...state, pod: undefined }));
  if (namespace?.going && !deployment && !claim && !pod && state.documents === 0)
    steps.push(step('the namespace is gone', { ...state, namespace: undefined }));
  if (deployment && !pod && namespace && !namespace.going && claim && claim.url !== 0)
    steps.push(step('a pod starts', { ...state, pod: { ...deployment, url: claim.url } }));
  return steps;
}

export function clock({ bounds }: Rules, state: State): Step<State>[] {
  const { capsule, assistant, now } = state;
  const waits = [capsule, assistant].some((one) => one && one.deleted > 0);
  return waits && now < bounds.hours ? [step('an hour goes by', { ...state, now: now + 1 })] : [];
}
