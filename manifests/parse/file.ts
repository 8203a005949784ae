import { assistantName, assistantSpec } from '../rules/assistant.ts';
import { capsuleName, capsuleSpec } from '../rules/capsule.ts';
import { manifest } from '../rules/manifest.ts';
import { object, type StringRule } from '../rules/rule.ts';
import { errorList, type ManifestError, pointerTo } from './error.ts';
import { explain } from './explain.ts';
import { mostValues } from './guard.ts';
import { decode, isReadable, readJson } from './json.ts';
import { type Parser, parserOf } from './parser.ts';
import { locateJson, type Position, readYaml } from './yaml.ts';

/** An error in a file, and where in it. */
interface FileError extends ManifestError {
  readonly position?: Position;
}

/** What a file holds, or what is wrong with it. */
export interface FileJudgement {
  readonly errors: readonly FileError[];
  /** What is valid and still more than can be stored; nothing of an invalid file. */
  readonly tooLarge: readonly FileError[];
  /** The manifests of a valid file: its one bare manifest, or those of its Assistants. */
  readonly manifests: readonly unknown[];
}

const parsers = {
  manifest: parserOf<object>(manifest),
  Assistant: parserOf<{ readonly manifest: object }>(assistantSpec),
  Capsule: parserOf<object>(capsuleSpec),
};
const MOST_VALUES = 2 * mostValues(assistantSpec);

/** Judges a file: one manifest as JSON or YAML, or a stream of Capsules and Assistants as `kubectl apply` takes it. */
export function judgeFile(bytes: Uint8Array, name: string): FileJudgement {
  const { errors, report } = errorList();
  const text = decode(bytes, report);
  if (text === undefined || !isReadable(text, report)) return refused(errors);
  if (name.endsWith('.json') || (!/\.ya?ml$/.test(name) && /^\s*[[{]/.test(text))) {
    const document = readJson(text, MOST_VALUES, report);
    const judged = document === undefined ? NOTHING : judgeDocument(document.value);
    const found = [...errors, ...judged.errors];
    if (found.length === 0 || document === undefined) return { ...judged, errors: found };
    const locate = locateJson(text);
    return refused(found.map((error) => ({ ...error, position: locate(error.pointer) })));
  }
  const documents = readYaml(text, report);
  if (errors.length > 0) return refused(errors);
  // A stream may end or begin with an empty document, as kubectl has it.
  const filled = documents.filter(({ value }) => value !== null || documents.length === 1);
  if (filled.length === 0) report([], 'yaml', 'must be a YAML document; found nothing');
  const judged = filled.map(({ value, locate }) => {
    const { errors: found, tooLarge, manifests } = judgeDocument(value, filled.length > 1);
    const located = (error: ManifestError) => ({ ...error, position: locate(error.pointer) });
    return { manifests, errors: found.map(located), tooLarge: tooLarge.map(located) };
  });
  const all = [...errors, ...judged.flatMap((one) => one.errors)];
  if (all.length > 0) return refused(all);
  return {
    errors: [],
    tooLarge: judged.flatMap((one) => one.tooLarge),
    manifests: judged.flatMap((one) => one.manifests),
  };
}

const refused = (errors: readonly FileError[]): FileJudgement => ({ errors, tooLarge: [], manifests: [] });
const NOTHING = refused([]);

function judgeDocument(value: unknown, among = false): FileJudgement {
  const { apiVersion, kind } = (typeof value === 'object' && value !== null ? value : {}) as Record<
    string,
    unknown
  >;
  if (apiVersion === undefined && kind === undefined) {
    if (!among) return judge(parsers.manifest, value, '', (found) => [found]);
    const message = 'must be a Capsule or an Assistant, since the file has several documents';
    return refused([{ pointer: '', rule: 'kind', message }]);
  }
  if (apiVersion !== 'platform.space/v1' || (kind !== 'Assistant' && kind !== 'Capsule')) {
    const message = 'must be a manifest, or a Capsule or Assistant of platform.space/v1';
    return refused([{ pointer: '', rule: 'kind', message }]);
  }
  return judgeResource(kind, value as Record<string, unknown>);
}

function judgeResource(kind: 'Assistant' | 'Capsule', resource: Record<string, unknown>): FileJudgement {
  const { metadata, spec, apiVersion: _, kind: __, status: ___, ...others } = resource;
  const unknown = Object.keys(others).map((key) => ({
    pointer: pointerTo([key]),
    rule: 'unknown-property',
    message: `is not a property of ${kind} (apiVersion, kind, metadata, spec, status)`,
  }));
  const isCapsule = kind === 'Capsule';
  const { name } = (metadata ?? {}) as { readonly name?: unknown };
  const named = explain(metadataOf(isCapsule ? capsuleName : assistantName), { name }).map((error) => ({
    ...error,
    pointer: `/metadata${error.pointer}`,
  }));
  const judged = isCapsule
    ? judge(parsers.Capsule, spec ?? {}, '/spec', () => [])
    : judge(parsers.Assistant, spec ?? {}, '/spec', (found) => [found.manifest]);
  const errors = [...unknown, ...named, ...judged.errors];
  return errors.length === 0 ? judged : refused(errors);
}

const metadataOf = (name: StringRule) =>
  object({
    title: 'Metadata',
    description: 'What Kubernetes knows the resource by.',
    required: { name },
    optional: {},
  });

function judge<T>(
  parser: Parser<T>,
  value: unknown,
  pointer: string,
  manifests: (value: T) => readonly unknown[],
): FileJudgement {
  const judgement = parser.check(value);
  const placed = (error: ManifestError) => ({ ...error, pointer: pointer + error.pointer });
  if (!judgement.ok) return refused(judgement.errors.map(placed));
  const tooLarge = judgement.tooLarge === undefined ? [] : [placed(judgement.tooLarge)];
  return { errors: [], tooLarge, manifests: manifests(judgement.value) };
}
