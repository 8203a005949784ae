/** What YAML does not take in a quoted text, or takes for the end of a line, though JSON has it as it is. */
const OTHERWISE = /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g;

/**
 * JSON that a reader of YAML reads as the same: each API server reads an apply as YAML, and none takes one as JSON. A half of a
 * pair, whose escape YAML refuses, becomes U+FFFD, as the API server makes of it in JSON.
 */
export function asYaml(value: unknown): string {
  const json = JSON.stringify(value, (_, item) => (typeof item === 'string' ? item.toWellFormed() : item));
  return json.replace(OTHERWISE, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
