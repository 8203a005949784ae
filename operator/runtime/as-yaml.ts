/** Characters that YAML does not permit in a quoted text, or reads as the end of a line, while JSON permits them. */
const OTHERWISE = /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g;

/**
 * JSON that a YAML parser reads as the same value: API servers accept an apply only as YAML. A lone surrogate, whose
 * escape YAML does not permit, becomes U+FFFD, as the API server makes of it in JSON.
 */
export function asYaml(value: unknown): string {
  const json = JSON.stringify(value, (_, item) => (typeof item === 'string' ? item.toWellFormed() : item));
  return json.replace(OTHERWISE, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
