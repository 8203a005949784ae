import * as z from 'zod';
import type { Visit } from '../visit.ts';
import { KubernetesError } from './client.ts';
import { type Metadata, metadata as metadataSchema } from './space.ts';

/** The annotation with what people did to the object with the console, one line each, the newest first. */
const RECORD = 'platform.space/record';
const MOST_LINES = 20;
const TRIES = 8;

const ACTS = [
  ...(['suspended', 'resumed', 'quota', 'input'] as const),
  // Acts on credential sets, with the generation of the Capsule's inventory that each led to.
  ...(['created', 'rotated', 'selected', 'deselected', 'deleted'] as const),
] as const;
export type DoneAct = (typeof ACTS)[number];

/** An act of a person with the console. An admission policy permits everybody to record only their own name. */
export interface Done {
  readonly at: string;
  readonly act: DoneAct;
  /** The name of an input or a credential set; empty for an act on the object itself. */
  readonly what: string;
  /**
   * The generation of the Capsule's credential sets after an act on these; of an input, the version of the Assistant that
   * its form showed.
   */
  readonly generation: number | undefined;
  readonly by: string;
}

const LINE =
  /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) ([a-z]+) (?:([A-Za-z0-9_-]{1,64}?)|-)(?:@(\d{1,15}))? ([^\n]{1,512})$/;

/** The recorded acts, the newest first. Lines of another form are ignored. */
export function doneOn({ annotations }: Pick<Metadata, 'annotations'>): readonly Done[] {
  return linesOf(annotations).flatMap((line) => {
    const [, at = '', word, what = '', generation, by = ''] = LINE.exec(line) ?? [];
    const act = ACTS.find((one) => one === word);
    if (act === undefined) return [];
    return [{ at, act, what, by, generation: generation === undefined ? undefined : Number(generation) }];
  });
}

const linesOf = (annotations: Metadata['annotations']) => (annotations[RECORD] ?? '').split('\n');

/** An act to record. */
export type Doing = Pick<Done, 'act'> & Partial<Pick<Done, 'what' | 'generation'>>;

/** The part of a patch that records the act. It contains the version that was read, so that no other line is lost. */
export function recording(
  { session, now }: Pick<Visit, 'session' | 'now'>,
  { resourceVersion, annotations }: Pick<Metadata, 'resourceVersion' | 'annotations'>,
  { act, what = '', generation }: Doing,
) {
  const at = now()
    .toISOString()
    .replace(/\.\d+Z$/, 'Z');
  const of = `${what === '' ? '-' : what}${generation === undefined ? '' : `@${generation}`}`;
  const line = `${at} ${act} ${of} ${session.user}`;
  // A form that was sent twice led to one generation, or showed one version, and is one act.
  const isSame = (one: Done) =>
    one.act === act && one.what === what && one.generation === generation && one.by === session.user;
  const isKnown = generation !== undefined && doneOn({ annotations }).some(isSame);
  // A name that does not fit into a line is not recorded.
  if (isKnown || !LINE.test(line)) return { resourceVersion };
  const lines = [line, ...linesOf(annotations).filter((one) => one !== '')].slice(0, MOST_LINES);
  return { resourceVersion, annotations: { [RECORD]: lines.join('\n') } };
}

const live = z.looseObject({ metadata: metadataSchema });
export const MERGE = 'application/merge-patch+json';

/**
 * Changes an object and records the person in the same request. An object that has the change already stays as it is: the
 * form was sent twice, or somebody else was faster. `judge` throws if this version of the object must not be changed.
 */
export async function changeAndRecord(
  visit: Pick<Visit, 'ask' | 'session' | 'now'>,
  path: string,
  doing: Doing,
  change: { readonly spec?: object },
  judge: (object: unknown) => void = () => {},
): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    const object = await visit.ask({ path });
    judge(object);
    const { metadata, spec } = live.parse(object);
    if (change.spec !== undefined && has(spec, change.spec)) return;
    const body = { ...change, metadata: recording(visit, metadata, doing) };
    try {
      // A separate field manager: Kubernetes stores only the last write of each manager, and approvals are looked up by
      // theirs.
      const query = { fieldManager: 'space-console-acts' };
      await visit.ask({ method: 'PATCH', path, query, contentType: MERGE, body });
      return;
    } catch (error) {
      const isOlder = error instanceof KubernetesError && error.status === 409;
      if (!isOlder || tries === TRIES) throw error;
    }
  }
}

/** Whether a value contains all of another one. */
const has = (value: unknown, wanted: unknown): boolean =>
  typeof wanted === 'object' && wanted !== null
    ? typeof value === 'object' &&
      value !== null &&
      Object.entries(wanted).every(([key, one]) => has((value as Record<string, unknown>)[key], one))
    : value === wanted;

/** Records an act that was done. If the person may not write the record, or the API server fails, the act remains. */
export async function record(
  visit: Pick<Visit, 'ask' | 'session' | 'now'>,
  path: string,
  doing: Doing,
): Promise<void> {
  try {
    await changeAndRecord(visit, path, doing, {});
  } catch (error) {
    if (!(error instanceof KubernetesError)) throw error;
  }
}
