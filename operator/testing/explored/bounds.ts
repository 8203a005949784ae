/** How much of everything an exploration of deletions has, and what it must find. */

export interface Bounds {
  /** 1 where a Capsule with an Assistant runs to begin with. */
  readonly running: number;
  /** How often each is made by somebody who applies it. */
  readonly capsules: number;
  readonly assistants: number;
  /** How often a deletion policy is given another value. */
  readonly words: number;
  /** What `retention.grace` begins with, in hours, and how often it is changed. */
  readonly grace: number;
  readonly graces: number;
  readonly hours: number;
  /** Finalizers that somebody takes off by force. */
  readonly forced: number;
  /** Pods whose labels and annotations somebody takes off. */
  readonly stripped: number;
  /** The operator dies or loses its Lease; what it had sent may land late. */
  readonly successions: number;
  readonly brokerCrashes: number;
  /** Answers that do not arrive. */
  readonly lost: number;
  /** Drops that the broker's upkeep takes up. */
  readonly upkeeps: number;
  readonly rotations: number;
  /** Tombstones that are deleted as old. */
  readonly prunes: number;
}

const NOTHING: Bounds = {
  running: 1,
  capsules: 1,
  assistants: 1,
  words: 0,
  grace: 0,
  graces: 0,
  hours: 0,
  forced: 0,
  stripped: 0,
  successions: 0,
  brokerCrashes: 0,
  lost: 0,
  upkeeps: 0,
  rotations: 0,
  prunes: 0,
};

/** Small enough to be gone through in seconds. */
export const BOUNDS = {
  'from nothing': { ...NOTHING, running: 0, successions: 1 },
  'an operator that dies': { ...NOTHING, assistants: 2, successions: 1 },
  'an operator that dies in its first work': {
    ...NOTHING,
    running: 0,
    capsules: 2,
    assistants: 0,
    successions: 1,
  },
  'an operator that dies while a Capsule goes': { ...NOTHING, capsules: 2, successions: 1 },
  'an operator that dies while a Capsule is kept': { ...NOTHING, capsules: 2, words: 1, successions: 1 },
  'an operator that dies while a Capsule is told otherwise': { ...NOTHING, words: 2, successions: 1 },
  'an operator that dies while Capsules are made again': {
    ...NOTHING,
    capsules: 2,
    assistants: 2,
    successions: 1,
  },
  'an operator that dies in a rotation': { ...NOTHING, assistants: 2, successions: 1, rotations: 1 },
  'answers that are lost': { ...NOTHING, assistants: 2, lost: 1, upkeeps: 1 },
  'a broker that dies': { ...NOTHING, assistants: 2, brokerCrashes: 1, upkeeps: 1 },
  'a grace and second thoughts': { ...NOTHING, assistants: 2, words: 1, grace: 1, hours: 1 },
  'a grace that is changed': { ...NOTHING, words: 1, grace: 1, graces: 1, hours: 1 },
  'words against words': { ...NOTHING, words: 2 },
  'a rotation of what is kept': { ...NOTHING, assistants: 2, words: 1, rotations: 1 },
  'finalizers taken off by force': { ...NOTHING, assistants: 2, forced: 1 },
  'Capsules made again': { ...NOTHING, capsules: 2, assistants: 2, prunes: 1 },
  'a Capsule that is kept and made again': { ...NOTHING, capsules: 2, assistants: 2, words: 1 },
  'pods that nobody knows': { ...NOTHING, stripped: 1, words: 1 },
} as const satisfies Readonly<Record<string, Bounds>>;

export const LARGE: Readonly<Record<string, Bounds>> = {
  'operators that die, and a Capsule made again': {
    ...NOTHING,
    capsules: 2,
    assistants: 2,
    words: 2,
    successions: 2,
    brokerCrashes: 1,
    lost: 1,
    rotations: 1,
  },
  'second thoughts in a grace, while operator and broker die': {
    ...NOTHING,
    assistants: 2,
    words: 2,
    grace: 1,
    graces: 1,
    hours: 2,
    successions: 1,
    brokerCrashes: 1,
    upkeeps: 1,
  },
  'all at once': {
    running: 1,
    capsules: 2,
    assistants: 3,
    words: 2,
    grace: 1,
    graces: 1,
    hours: 2,
    forced: 1,
    stripped: 1,
    successions: 2,
    brokerCrashes: 1,
    lost: 1,
    upkeeps: 1,
    rotations: 1,
    prunes: 1,
  },
};

/** What an implementation might get wrong, and the bounds within which an exploration finds it. */
const DEFECTS = {
  'takes its finalizer off before the drop is answered': 'an operator that dies',
  'takes a broker that is away for one that has dropped': 'answers that are lost',
  'drops before its pods are gone': 'pods that nobody knows',
  'believes its store that no pod is left': 'pods that nobody knows',
  'goes by the policy in its store': 'a grace and second thoughts',
  'counts the grace from its wrong side': 'a grace and second thoughts',
  'drops a Capsule in its grace': 'a grace and second thoughts',
  'takes the word of the Assistant while its Capsule goes': 'words against words',
  'drops a Capsule that keeps': 'a Capsule that is kept and made again',
  'takes an absence for an order to drop': 'finalizers taken off by force',
  'drops for whoever is deleted': 'finalizers taken off by force',
  'gives a claim that is not retained to the next': 'finalizers taken off by force',
  'drops a Capsule before its Assistants are gone': 'a grace that is changed',
  'deletes whichever Assistant has the name': 'an operator that dies while Capsules are made again',
  'takes a principal away before the broker is done': 'an operator that dies while a Capsule goes',
  'makes anew what was kept': 'a rotation of what is kept',
  'writes a URL over whatever claim is there': 'an operator that dies in a rotation',
  'takes the finalizer off whatever is there': 'an operator that dies',
  'marks whatever principal is there as finalized': 'an operator that dies while a Capsule goes',
  'believes a word to keep that comes after its drop': 'an operator that dies while a Capsule is kept',
  'lets go of whatever principal is there': 'an operator that dies while a Capsule is kept',
  'lets a Capsule go whatever it says by now': 'an operator that dies while a Capsule is told otherwise',
  'tells that an Assistant is kept that is dropped': 'an operator that dies while a Capsule is kept',
  'goes on after its Lease is lost': 'an operator that dies',
  'begins a drop that its caller gave up': 'an operator that dies',
  'begins a provision that its caller gave up': 'an operator that dies in its first work',
  'answers a drop before access is cut': 'an operator that dies',
  'cuts access without noting it': 'a broker that dies',
  'drops what is being dropped by its row alone': 'answers that are lost',
  'gives the same epoch again': 'answers that are lost',
  'begins its generations again': 'answers that are lost',
  'keeps its generation when it rotates': 'a rotation of what is kept',
  'leaves no tombstone': 'answers that are lost',
  'issues the URL of what is being dropped': 'from nothing',
  'takes back a principal that was retired': 'an operator that dies in its first work',
  'creates in a Capsule that is being dropped': 'from nothing',
} as const satisfies Readonly<Record<string, keyof typeof BOUNDS>>;
export type Defect = keyof typeof DEFECTS;

/** Each with its bounds. */
export const SEEDED = Object.entries(DEFECTS) as readonly (readonly [Defect, keyof typeof BOUNDS])[];
