/** What is allowed in a place of a template. */
export type Hole = 'content' | 'attribute' | 'url' | 'flag';

/** A mistake in a template, found at its first use; never caused by a request. */
export class TemplateError extends Error {
  override readonly name = 'TemplateError';
}

/** Attributes that a browser follows or loads. */
const LEADS = new Set([
  'action',
  'background',
  'cite',
  'data',
  'formaction',
  'href',
  'manifest',
  'ping',
  'poster',
  'src',
  'srcset',
  'xlink:href',
]);
/** Attributes whose text is code or a document. */
const CODE = /^(?:on.*|style|srcdoc|http-equiv)$/;
/** Elements whose content does not become safe by escaping. */
const RAW = new Set(['script', 'style', 'iframe', 'noscript', 'template', 'xmp', 'plaintext', 'noembed']);

type State =
  | { readonly at: 'content' }
  | { readonly at: 'tag' }
  | { readonly at: 'value'; readonly attribute: string; readonly begun: boolean };

/** Parses the text of a template and returns what may stand in each place between its pieces. */
export function holesOf(strings: readonly string[]): readonly Hole[] {
  let state: State = { at: 'content' };
  const holes: Hole[] = [];
  for (const [index, piece] of strings.entries()) {
    state = read(piece, state);
    if (index === strings.length - 1) break;
    const next = strings[index + 1] ?? '';
    holes.push(holeAt(state, next));
  }
  if (state.at !== 'content') throw new TemplateError('the template ends within a tag');
  return holes;
}

function holeAt(state: State, next: string): Hole {
  if (state.at === 'content') return 'content';
  if (state.at === 'tag') return 'flag';
  const { attribute, begun } = state;
  if (CODE.test(attribute)) throw new TemplateError(`no value may stand in the attribute ${attribute}`);
  if (!LEADS.has(attribute)) return 'attribute';
  // A text beside it could change the address.
  if (begun || !next.startsWith('"')) throw new TemplateError(`a Url is the whole of ${attribute}`);
  return 'url';
}

/** Reads one token after the other, and refuses any that it does not know. */
function read(piece: string, from: State): State {
  let state = from;
  let rest = piece;
  while (rest !== '') {
    const [next, taken] =
      state.at === 'content'
        ? readContent(rest)
        : state.at === 'tag'
          ? readTag(rest)
          : readValue(rest, state);
    state = next;
    rest = rest.slice(taken);
  }
  return state;
}

const OPENS = /^<(?:!doctype html>|\/[a-z][a-z0-9]*>|([a-z][a-zA-Z0-9]*)(?=[\s>/]))/;

function readContent(text: string): readonly [State, number] {
  const start = text.indexOf('<');
  if (start < 0) return [{ at: 'content' }, text.length];
  if (start > 0) return [{ at: 'content' }, start];
  const opened = OPENS.exec(text);
  if (opened === null) throw new TemplateError(`not a tag: ${text.slice(0, 20)}`);
  const [whole, element] = opened;
  if (element === undefined) return [{ at: 'content' }, whole.length];
  if (RAW.has(element.toLowerCase())) throw new TemplateError(`no template makes a ${element}`);
  return [{ at: 'tag' }, whole.length];
}

function readTag(text: string): readonly [State, number] {
  const [end] = /^\s*\/?>/.exec(text) ?? [];
  if (end !== undefined) return [{ at: 'content' }, end.length];
  const [space] = /^\s+/.exec(text) ?? [];
  if (space !== undefined) return [{ at: 'tag' }, space.length];
  const named = /^([a-zA-Z][a-zA-Z0-9:-]*)(="|(?=[\s/>]))/.exec(text);
  if (named === null) throw new TemplateError(`an attribute without quotes: ${text.slice(0, 20)}`);
  const [whole, name = '', quote] = named;
  const attribute = name.toLowerCase();
  if (quote === '') return [{ at: 'tag' }, whole.length];
  return [{ at: 'value', attribute, begun: false }, whole.length];
}

function readValue(text: string, state: State & { at: 'value' }): readonly [State, number] {
  const end = text.indexOf('"');
  if (end < 0) return [{ ...state, begun: true }, text.length];
  return [{ at: 'tag' }, end + 1];
}
