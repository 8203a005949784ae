/** The same expression as RE2 spells it: a character by number is `\x{200B}` there. */
export const re2 = (pattern: string): string => pattern.replaceAll(/\\u([0-9A-F]{4})/g, '\\x{$1}');

/** A string literal of CEL; JSON's escapes are among CEL's. */
export const cel = (text: string): string => JSON.stringify(text);
