/** How much of everything an exploration of the custody has, and what it must find. */

export interface Bounds {
  readonly replicas: number;
  readonly changes: number;
  readonly reads: number;
  readonly crashes: number;
  readonly lostConnections: number;
  /** Setting both back can hide it (docs/adr/0005), so a run sets back only one of them. */
  readonly registrySetBack: number;
  readonly bucketSetBack: number;
  readonly decisions: number;
}

const NOTHING: Bounds = {
  replicas: 2,
  changes: 2,
  reads: 0,
  crashes: 0,
  lostConnections: 0,
  registrySetBack: 0,
  bucketSetBack: 0,
  decisions: 0,
};

/** Small enough to be explored in seconds. */
export const BOUNDS: Readonly<Record<string, Bounds>> = {
  'crashes and lost connections': { ...NOTHING, reads: 2, crashes: 1, lostConnections: 1 },
  'a registry that is set back': { ...NOTHING, reads: 2, crashes: 1, registrySetBack: 1 },
  'decisions about it': { ...NOTHING, changes: 1, reads: 2, registrySetBack: 1, decisions: 1 },
  'decisions in a crash': { ...NOTHING, reads: 1, crashes: 1, lostConnections: 1, decisions: 1 },
  'a bucket that is set back': { ...NOTHING, changes: 1, reads: 2, bucketSetBack: 1, decisions: 1 },
};

export const LARGE: Readonly<Record<string, Bounds>> = {
  'all at once': {
    ...NOTHING,
    changes: 3,
    reads: 2,
    crashes: 2,
    lostConnections: 1,
    registrySetBack: 1,
    decisions: 1,
  },
  'three replicas': { ...NOTHING, replicas: 3, changes: 3, reads: 2, crashes: 1, registrySetBack: 1 },
  'a bucket that is set back twice': {
    ...NOTHING,
    reads: 2,
    crashes: 1,
    lostConnections: 1,
    bucketSetBack: 2,
    decisions: 2,
  },
  'crashes upon crashes': { ...NOTHING, changes: 3, reads: 2, crashes: 3, lostConnections: 2, decisions: 1 },
};

/** What an implementation might get wrong; each is found by an exploration. */
export const DEFECTS = [
  'answers before it anchors',
  'anchors before it commits',
  'never anchors',
  'answers a reader of what is not anchored',
  'compares revisions alone',
  'takes a missing registry for a new one',
  'does not read again under the lock',
  'believes a reader who saw a rollback',
  'changes without a lock',
  'changes what was set back',
  'rotates within one generation',
  'answers what could not be anchored',
  'decides without a lock',
  'anchors over whatever is there',
  'anchors late over whatever is there',
  'goes on after its connection is lost',
  'does not settle before it changes',
  'accepts below the anchor',
  'accepts without a new generation',
  'accepts with the numbers of the rows',
  'discards below the anchor',
  'discards back to nothing',
  'discards over what a crash left',
  'answers a decision before it anchors',
] as const;
export type Defect = (typeof DEFECTS)[number];
