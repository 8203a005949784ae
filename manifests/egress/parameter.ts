/** Small letters without marks, as servers compare that ignore case, accents, width or what cannot be seen. */
function lettersOf(text: string): string {
  if (/^[ -~]*$/.test(text)) return text.toLowerCase();
  const bare = text.normalize('NFKD').replace(/[\p{M}\p{Cf}]/gu, '');
  // Some letters, such as the dotless i, have the same capital as another.
  return bare.toUpperCase().toLowerCase();
}

/**
 * A parameter's name as PHP reads it, and as servers do that ignore case: `a.b` and `a[x]` for `a_b` and `a`; leading
 * spaces and what follows a NUL are forgotten. Two names that fold to one are one to somebody.
 */
export function foldedParameter(name: string): string {
  return lettersOf(name).replace(/\0.*/s, '').trimStart().replace(/\[.*/s, '').replace(/[. ]/g, '_');
}

/** What names of selectors and slots consist of, but for the dot, which some servers take for a bracket. */
const PART = /[a-z0-9_~-]+/g;

/**
 * All names for which some server takes a parameter. `$a` is `a` to OData, `.a` to qs with dots, `x.a` and `x[a]` to
 * ASP.NET, which binds by the name of its own variable; `a.x` and `a>` say something of `a`.
 */
export function parameterReadings(name: string): readonly string[] {
  const folded = foldedParameter(name);
  const parts: readonly string[] = lettersOf(name).match(PART) ?? [];
  const [first, ...others] = parts;
  if (first === undefined || first === name) return [folded];
  return [folded, first, ...others.slice(-1), others.join('_'), parts.join('_')];
}

/**
 * Whether all servers see a name where there is one. Rack and qs take brackets off that do not stand behind a name, PHP
 * forgets what stands behind them, and URLSearchParams takes off a question mark; an escape may be undone twice.
 */
export const isPlainParameter = (name: string): boolean => /^(?!\?)[^[\]%]+(?:\[[^[\]%]*\])*$/.test(name);

/** Parameters from which some servers take the method of a request, in the place of its first line's. */
const METHOD_NAMES =
  /^(?:_method|[_$]?httpmethod|x[-_]http[-_]method(?:[-_]override)?|x[-_]method[-_]override)$/;

/** Whether some servers would read a request differently because of this parameter, decoded. */
export function overridesMethod(name: string, value = ''): boolean {
  const letters = lettersOf(name);
  if (!letters.includes('method')) return false;
  const isMethod = /^\s*(?:post|put|patch|delete)\s*$/i.test(value);
  return [foldedParameter(name), letters.match(PART)?.join('_') ?? ''].some(
    (reading) => METHOD_NAMES.test(reading) || (isMethod && reading === 'method'),
  );
}
