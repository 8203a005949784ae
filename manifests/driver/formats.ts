/** The form that a value of a credential field must have. */
export interface FieldFormat {
  readonly type: 'text' | 'password' | 'choice';
  readonly secret: boolean;
  /** Bounds of the length; all characters are ASCII. */
  readonly min: number;
  readonly max: number;
  readonly pattern: RegExp;
  /** What is refused though the pattern matches. */
  readonly refused?: RegExp;
}

/** The closed registry of version 1: a form that names another format stops the broker before it listens. */
export const formats: Readonly<Record<string, FieldFormat>> = {
  /** Lowercase host of two labels or more, and a port where it is not 443; nothing else of a URL. */
  'https-origin': {
    type: 'text',
    secret: false,
    min: 11,
    max: 267,
    pattern:
      /^https:\/\/(?=[a-z0-9.-]{1,253}(?::|$))(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?(?::[1-9][0-9]{0,4})?$/,
    refused: /:(?:443|6553[6-9]|655[4-9][0-9]|65[6-9][0-9]{2}|6[6-9][0-9]{3}|[7-9][0-9]{4})$/,
  },
  's3-region': { type: 'text', secret: false, min: 1, max: 32, pattern: /^[a-z0-9]+(?:-[a-z0-9]+)*$/ },
  's3-bucket': {
    type: 'text',
    secret: false,
    min: 3,
    max: 63,
    pattern: /^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])$/,
    refused: /\.\.|\.-|-\.|^[0-9]+(?:\.[0-9]+){3}$|^xn--/,
  },
  's3-addressing': { type: 'choice', secret: false, min: 4, max: 12, pattern: /^(?:path|virtual-host)$/ },
  's3-access-key-id': { type: 'password', secret: true, min: 3, max: 128, pattern: /^[A-Za-z0-9._~+/=-]+$/ },
  /** No space and no control character, so that it cannot split a header. */
  's3-secret-access-key': { type: 'password', secret: true, min: 8, max: 256, pattern: /^[\x21-\x7e]+$/ },
};

export function isWithin(inner: { min: number; max: number }, outer: { min: number; max: number }): boolean {
  return outer.min <= inner.min && inner.min <= inner.max && inner.max <= outer.max;
}

/** Is the text a value of the field, in its format and its bounds? */
export function isFieldValue(
  text: string,
  field: { readonly format: string; readonly min: number; readonly max: number },
): boolean {
  const format = formats[field.format];
  if (format === undefined || text.length < field.min || text.length > field.max) return false;
  return format.pattern.test(text) && format.refused?.test(text) !== true;
}
