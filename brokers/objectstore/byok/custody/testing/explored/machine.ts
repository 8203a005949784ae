/**
 * The custody's protocol as a machine whose every interleaving can be gone through: replicas that change and read one
 * Capsule's inventory, administrators, crashes, connections that are lost, requests to the bucket that land late, a
 * registry or a bucket that is set back. Decisions are those of the service (`compare`, `planRotate`, `nextRevision`,
 * `beyond`); what is here is the order of its steps, as in locked.ts, custody.ts, restore.ts and discard.ts.
 */
import type { Space, Step } from '../../../../../../testing/explore.ts';
import type { Bounds, Defect } from './bounds.ts';
import { createDecisions, type Decisions, type Version } from './decisions.ts';
import { type At, among, keyOf, LOST, type Process, put, type State, type Work } from './state.ts';

/** With what its numbers of inventories stand for. */
type CustodySpace = Space<State> & Pick<Decisions, 'inventoryOf'>;

export function custodySpace(bounds: Bounds, defect?: Defect): CustodySpace {
  const is = (one: Defect) => defect === one;
  const { created, generationOf, inventoryOf, verdictOf, rotated, decided } = createDecisions(defect);
  const initial: State = {
    rows: created,
    anchor: created,
    pastRows: [0, created],
    pastAnchors: [0, created],
    processes: Array.from({ length: bounds.replicas }, () => undefined),
    late: [],
    told: [[1, created]],
    left: bounds,
    setBack: false,
  };

  return {
    inventoryOf,
    initial,
    key: keyOf,
    next: (state) => [
      ...begins(state),
      ...state.processes.flatMap((process, p) =>
        process ? [...goesOn(state, p, process), ...fails(state, p, process)] : [],
      ),
      ...world(state),
    ],
  };

  /** A replica without work takes some. */
  function begins(state: State): Step<State>[] {
    const { left } = state;
    // Replicas are alike: the first that is free stands for all.
    const p = state.processes.indexOf(undefined);
    if (p < 0) return [];
    const floor = Math.max(...state.told.map(([generation]) => generation));
    const begin = (work: Work, at: At, key: 'changes' | 'reads' | 'decisions'): Step<State>[] => {
      if (left[key] === 0) return [];
      const process = {
        work,
        at,
        floor,
        anchor: 0,
        rows: 0,
        next: 0,
        locked: false,
        connected: true,
        alarmed: false,
      };
      const to = put({ ...state, left: { ...left, [key]: left[key] - 1 } }, p, process);
      return [{ label: `${p} begins to ${work}`, to }];
    };
    const change = is('changes without a lock') ? 'read anchor' : 'lock';
    const decide = is('decides without a lock') ? 'read anchor' : 'lock';
    return [
      ...begin('change', change, 'changes'),
      ...begin('read', 'read anchor', 'reads'),
      ...begin('accept', decide, 'decisions'),
      ...begin('discard', decide, 'decisions'),
    ];
  }

  function goesOn(state: State, p: number, process: Process): Step<State>[] {
    const { work, at } = process;
    const step = (to: State, more = '', wrong?: string): Step<State>[] => [
      { label: `${p} ${work}: ${at}${more}`, to, wrong },
    ];
    const go = (change: Partial<Process>, more?: string) =>
      step(put(state, p, { ...process, ...change }), more);
    const end = (more: string, wrong?: string, told?: Partial<State>) =>
      step(put({ ...state, ...told }, p, undefined), more, wrong);
    const alarmed = process.alarmed || state.setBack;
    const asks = at === 'lock' || at === 'read rows' || at === 'commit';
    if (asks && !process.connected && !is('goes on after its connection is lost'))
      return end(' fails: its connection is lost');

    switch (at) {
      case 'lock':
        if (state.processes.some((other) => other?.locked)) return [];
        return go({ at: 'read anchor', locked: true });
      case 'read anchor':
        return go({ anchor: state.anchor, alarmed, at: 'read rows' });
      case 'read rows':
        return go({ rows: state.rows, alarmed, at: 'judge' });
      case 'judge':
        return judged(state, process, go, end);
      case 'settle': {
        if (state.anchor !== process.anchor) return end(' fails: another anchor is there');
        const to = { ...state, ...anchored(state, process.rows) };
        const settled = { ...process, anchor: process.rows };
        if (work === 'read') return step(put(to, p, { ...settled, at: 'answer' }));
        const next =
          work === 'discard'
            ? decided(work, process.rows, process.rows)
            : rotated(process.rows, nonceOf(state));
        return step(put(to, p, { ...settled, next, at: 'commit' }));
      }
      case 'commit': {
        if (state.rows !== process.rows && work !== 'discard') return end(' fails: the rows changed');
        const to = { ...state, rows: process.next, pastRows: among(state.pastRows, process.next) };
        const early =
          (is('answers before it anchors') && work === 'change') ||
          (is('answers a decision before it anchors') && work !== 'change');
        const before = is('anchors before it commits') && work === 'change';
        const after = before || is('never anchors') || early ? 'answer' : 'anchor';
        return step(put(to, p, { ...process, at: after }));
      }
      case 'anchor': {
        const over = process.anchor;
        if (state.anchor !== over && is('answers what could not be anchored')) return go({ at: 'answer' });
        if (state.anchor !== over && !is('anchors over whatever is there'))
          return end(' fails: another anchor is there');
        // What an administrator has decided stands when both have it, and nobody is at work on what was set back.
        const decides = (work === 'accept' || work === 'discard') && state.rows === process.next;
        const others = state.processes.some((other, at) => at !== p && other?.alarmed);
        const setBack = state.setBack && (others || !decides);
        const to = { ...state, ...anchored(state, process.next), setBack };
        const first = is('anchors before it commits') && work === 'change';
        return step(put(to, p, { ...process, anchor: process.next, at: first ? 'commit' : 'answer' }));
      }
      case 'answer': {
        const version = work === 'read' ? process.rows : process.next;
        const generation = generationOf(version);
        const wrong = wrongAnswer(state, process, generation, version);
        const isNews = state.told.every(([one]) => one !== generation);
        const told = isNews ? [...state.told, [generation, version] as const] : state.told;
        return end(` ${generation}`, wrong, { told });
      }
    }
  }

  function judged(
    state: State,
    process: Process,
    go: (change: Partial<Process>, more?: string) => Step<State>[],
    end: (more: string, wrong?: string) => Step<State>[],
  ): Step<State>[] {
    const { work, rows, anchor } = process;
    const standing = verdictOf(rows, anchor);
    if (work === 'discard') {
      if (standing === 'ahead' && !is('discards over what a crash left')) return go({ at: 'settle' });
      return go({ next: decided(work, rows, anchor), at: 'commit' });
    }
    if (work === 'accept')
      return standing === 'rollback'
        ? go({ next: decided(work, rows, anchor), at: 'commit' })
        : end(': nothing to accept');
    const trusting =
      (is('believes a reader who saw a rollback') && work === 'read') ||
      (is('changes what was set back') && work === 'change');
    if (standing === 'rollback' && !trusting) {
      // Without the lock, the two reads may be of different moments.
      const again = work === 'read' && !process.locked && !is('does not read again under the lock');
      if (again) return go({ at: 'lock' }, ': not of one moment');
      return end(': alarm', process.alarmed ? undefined : 'a false alarm: nothing was set back');
    }
    if (work === 'read') {
      const settled = standing !== 'ahead' || is('answers a reader of what is not anchored');
      if (settled) return go({ at: 'answer' });
      return go({ at: process.locked ? 'settle' : 'lock' }, ': not anchored');
    }
    if (standing === 'ahead' && !is('does not settle before it changes')) return go({ at: 'settle' });
    const at = is('anchors before it commits') ? 'anchor' : 'commit';
    return go({ next: rotated(rows, nonceOf(state)), at });
  }

  /** It ends, or the network leaves it alone. */
  function fails(state: State, p: number, process: Process): Step<State>[] {
    const { left } = state;
    const steps: Step<State>[] = [];
    const say = (what: string, to: State) => steps.push({ label: `${p} ${what}`, to });
    if (left.crashes > 0) {
      const after = { ...state, left: { ...left, crashes: left.crashes - 1 } };
      say(`crashes at ${process.at}`, put(after, p, undefined));
      const to = process.at === 'anchor' ? process.next : process.rows;
      if (process.at === 'anchor' || process.at === 'settle')
        say(
          `crashes at ${process.at}, which it has sent`,
          put({ ...after, late: [...state.late, { over: process.anchor, to }] }, p, undefined),
        );
    }
    if (left.lostConnections > 0 && process.connected)
      say(
        'loses its connection, and its lock with it',
        put({ ...state, left: { ...left, lostConnections: left.lostConnections - 1 } }, p, {
          ...process,
          ...LOST,
        }),
      );
    return steps;
  }

  /** What lands late, and who sets something back. */
  function world(state: State): Step<State>[] {
    const { left, late } = state;
    const landing = late.map(({ over, to }, i): Step<State> => {
      const others = { ...state, late: late.filter((_, other) => other !== i) };
      const lands = state.anchor === over || is('anchors late over whatever is there');
      return {
        label: `an anchor lands late${lands ? '' : ', and is refused'}`,
        to: lands ? { ...others, ...anchored(state, to) } : others,
      };
    });
    const registry = state.pastRows.filter((version) => left.registrySetBack > 0 && version !== state.rows);
    const bucket = state.pastAnchors.filter((version) => left.bucketSetBack > 0 && version !== state.anchor);
    return [
      ...landing,
      ...registry.map(
        (version): Step<State> => ({
          label: `the registry is set back to generation ${generationOf(version)}`,
          to: {
            ...state,
            rows: version,
            setBack: true,
            processes: state.processes.map((process) => process && { ...process, ...LOST }),
            left: { ...left, registrySetBack: left.registrySetBack - 1 },
          },
        }),
      ),
      ...bucket.map(
        (version): Step<State> => ({
          label: `the bucket is set back to generation ${generationOf(version)}`,
          to: {
            ...state,
            anchor: version,
            setBack: true,
            left: { ...left, bucketSetBack: left.bucketSetBack - 1 },
          },
        }),
      ),
    ];
  }

  function anchored(state: State, version: Version): Pick<State, 'anchor' | 'pastAnchors'> {
    return { anchor: version, pastAnchors: among(state.pastAnchors, version) };
  }

  function wrongAnswer(state: State, { floor }: Process, generation: number, version: Version) {
    if (generation < floor) return `answers generation ${generation} after somebody was told of ${floor}`;
    const known = state.told.find(([one]) => one === generation);
    if (known !== undefined && known[1] !== version)
      return `answers two contents of generation ${generation}`;
    return undefined;
  }

  function nonceOf({ left }: State): number {
    return bounds.changes - left.changes;
  }
}
