import { canonicalJson } from '@space/manifests';

/** A place where two manifests differ. */
export interface Change {
  /** A JSON pointer; for a list whose order has no meaning, that of the list. */
  readonly pointer: string;
  /** Undefined if the running manifest has nothing there. */
  readonly before: string | undefined;
  /** Undefined if the next manifest has nothing there. */
  readonly after: string | undefined;
}

/** Every difference between the running and the next manifest: additions, removals and changes. */
export function manifestChanges(before: unknown, after: unknown, pointer = ''): readonly Change[] {
  if (canonicalJson(before ?? null) === canonicalJson(after ?? null)) return [];
  if (isRecord(before) && isRecord(after)) {
    const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...keys].flatMap((key) =>
      manifestChanges(own(before, key), own(after, key), `${pointer}/${escaped(key)}`),
    );
  }
  if (Array.isArray(before) && Array.isArray(after)) return changesOfLists(before, after, pointer);
  return [{ pointer, before: textOf(before), after: textOf(after) }];
}

/** Hosts, scopes, routes and creators are sets, so another order in them is no change. */
function changesOfLists(
  before: readonly unknown[],
  after: readonly unknown[],
  pointer: string,
): readonly Change[] {
  const [old, next] = [new Map(before.map(entry)), new Map(after.map(entry))];
  return [
    ...[...next].flatMap(([key, one]) =>
      old.has(key) ? [] : [{ pointer, before: undefined, after: textOf(one) }],
    ),
    ...[...old].flatMap(([key, one]) =>
      next.has(key) ? [] : [{ pointer, before: textOf(one), after: undefined }],
    ),
  ];
}

const entry = (one: unknown): [string, unknown] => [canonicalJson(one), one];

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const own = (record: Readonly<Record<string, unknown>>, key: string): unknown =>
  Object.hasOwn(record, key) ? record[key] : undefined;

const escaped = (key: string) => key.replaceAll('~', '~0').replaceAll('/', '~1');

const textOf = (value: unknown): string | undefined =>
  value === undefined ? undefined : typeof value === 'string' ? value : JSON.stringify(value);
