/** The path of a key in a request: RFC 3986, everything escaped that may be, slashes kept. */
export function encodePath(text: string): string {
  return encode(text).replaceAll('%2F', '/');
}

/** A name or value of a query. */
export function encode(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, escapeChar);
}

function escapeChar(char: string): string {
  return `%${char.charCodeAt(0).toString(16).toUpperCase()}`;
}
