/** JSON that JavaScript would read but a careful service refuses: duplicate or dangerous keys, too deep. */
export class StrictJsonError extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'StrictJsonError';
  }
}

const MAX_DEPTH = 16;
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Parses bytes as strict UTF-8 JSON without duplicate keys and `__proto__`, at most 16 levels deep. */
export function parseStrictJson(bytes: Uint8Array): unknown {
  let text: string;
  let value: unknown;
  try {
    text = utf8.decode(bytes);
    value = JSON.parse(text);
  } catch {
    // The cause is left out: the parser's message quotes the text, which may hold a token.
    throw new StrictJsonError('not JSON in UTF-8');
  }
  checkKeys(text);
  return value;
}

/** Walks text that is known to be valid JSON and looks at its keys alone. */
function checkKeys(text: string): void {
  const open: (Set<string> | undefined)[] = [];
  let i = 0;
  while (i < text.length) {
    const char = text[i];
    if (char === '"') {
      const end = endOfString(text, i);
      const keys = open.at(-1);
      if (keys !== undefined && isFollowedByColon(text, end)) {
        addKey(keys, JSON.parse(text.slice(i, end)) as string);
      }
      i = end;
      continue;
    }
    if (char === '{' || char === '[') {
      open.push(char === '{' ? new Set() : undefined);
      if (open.length > MAX_DEPTH) throw new StrictJsonError('nested too deeply');
    } else if (char === '}' || char === ']') {
      open.pop();
    }
    i += 1;
  }
}

function addKey(keys: Set<string>, key: string): void {
  if (key === '__proto__') throw new StrictJsonError('forbidden key');
  if (keys.has(key)) throw new StrictJsonError('duplicate key');
  keys.add(key);
}

function isFollowedByColon(text: string, from: number): boolean {
  let i = from;
  while (text[i] === ' ' || text[i] === '\t' || text[i] === '\n' || text[i] === '\r') i += 1;
  return text[i] === ':';
}

function endOfString(text: string, start: number): number {
  let i = start + 1;
  while (text[i] !== '"') i += text[i] === '\\' ? 2 : 1;
  return i + 1;
}
