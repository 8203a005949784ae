import { STORAGE_LIMIT } from '../rules/manifest.ts';
import type { Rule } from '../rules/rule.ts';
import type { ManifestError } from './error.ts';
import { errorList, pointerTo } from './error.ts';
import { explain } from './explain.ts';
import { guard, mostValues } from './guard.ts';
import { decode, isReadable, readJson } from './json.ts';
import { zodOf } from './zod.ts';

/**
 * What a value turned out to be: accepted and frozen, or everything that is wrong with it. What is accepted may be more
 * than can be stored, which is no rule of the interface.
 */
export type Judgement<T> =
  | { readonly ok: true; readonly value: T; readonly tooLarge?: ManifestError }
  | { readonly ok: false; readonly errors: readonly ManifestError[] };

export interface Parser<T> {
  /** A parsed value, such as the API server hands out. */
  check(value: unknown): Judgement<T>;
  /** JSON text, or the bytes of it. */
  parse(text: string | Uint8Array): Judgement<T>;
}

/** From here on the walk, which stops at a bound of errors, goes before zod, which would collect them all. */
const LARGE = 2000;

/**
 * The parser of a rule, whose accepted values are `T`. zod decides and copies; a refused value is walked a second time for the sake of its
 * messages, and a walk that found nothing to say would still not make it accepted.
 */
export function parserOf<T>(rule: Rule): Parser<T> {
  const schema = zodOf(rule);
  const most = mostValues(rule);

  function check(input: unknown): Judgement<T> {
    const { errors, report } = errorList();
    const measure = guard(input, most, report);
    if (measure === undefined) return { ok: false, errors };
    if (measure.values > LARGE) {
      const reasons = explain(rule, input);
      if (reasons.length > 0) return { ok: false, errors: reasons };
    }
    const outcome = schema.safeParse(input);
    if (!outcome.success) {
      const reasons = explain(rule, input);
      return {
        ok: false,
        errors: reasons.length > 0 ? reasons : [unexplained(outcome.error.issues[0]?.path)],
      };
    }
    const tooLarge = measure.bytes > STORAGE_LIMIT ? tooLargeFor(outcome.data) : undefined;
    return { ok: true, value: deepFreeze(outcome.data as T), ...(tooLarge && { tooLarge }) };
  }

  function parse(input: string | Uint8Array): Judgement<T> {
    const { errors, report } = errorList();
    const text = typeof input === 'string' ? input : decode(input, report);
    if (text === undefined || !isReadable(text, report)) return { ok: false, errors };
    const document = readJson(text, most, report);
    if (document === undefined) return { ok: false, errors };
    const judgement = check(document.value);
    if (errors.length === 0) return judgement;
    return { ok: false, errors: judgement.ok ? errors : [...errors, ...judgement.errors] };
  }

  return { check, parse };
}

/** The order of keys, which is all that is canonical, makes no difference to the size. */
function tooLargeFor(value: unknown): ManifestError | undefined {
  const bytes = Buffer.byteLength(JSON.stringify(value));
  if (bytes <= STORAGE_LIMIT) return undefined;
  const limit = `must be at most ${STORAGE_LIMIT} bytes of canonical JSON, which is what can be stored`;
  return { pointer: '', rule: 'storage-size', message: `${limit}; found ${bytes}` };
}

/** Used before storing a manifest: one that is too large is refused. */
export const storable = <T>(judgement: Judgement<T>): Judgement<T> =>
  judgement.ok && judgement.tooLarge ? { ok: false, errors: [judgement.tooLarge] } : judgement;

const unexplained = (path: readonly PropertyKey[] | undefined): ManifestError => ({
  pointer: pointerTo((path ?? []).map(String)),
  rule: 'refused',
  message: 'is refused by the schema',
});

function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null) return value;
  for (const member of Object.values(value)) deepFreeze(member);
  return Object.freeze(value);
}
