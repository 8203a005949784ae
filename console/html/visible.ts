/** Characters that turn, hide or break text, so that it looks like another one. */
const DECEIVING =
  /\p{Cc}|\p{Cf}|\p{Co}|\p{Cn}|\p{Cs}|\p{Zl}|\p{Zp}|\u00a0|\u034f|\u115f|\u1160|\u17b4|\u17b5|[\u2000-\u200a]|\u202f|\u205f|\u2800|\u3000|\u3164|[\ufe00-\ufe0e]|\uffa0|[\u{e0100}-\u{e01ef}]/gu;
/** Many marks over one letter, which extend into adjacent lines. */
const PILED = /(\p{M}{3})\p{M}+/gu;
/** A person's own line breaks and tabs do not deceive. */
const HARMLESS = new Set(['\n', '\t']);

/** The text with every character that deceives the eye replaced by its code point, such as ⟨U+202E⟩. */
export function visible(text: string): string {
  return text
    .replace(DECEIVING, (character) => (HARMLESS.has(character) ? character : named(character)))
    .replace(PILED, '$1⟨…⟩');
}

/** The first characters of a text, with the total number if not all are shown. */
export function bounded(text: string, max: number): string {
  // Checked before counting, so that a text of a megabyte is not split into an array for one line of it.
  if (text.length <= max) return text;
  const shown = [...text.slice(0, max * 2)].slice(0, max).join('');
  return shown.length === text.length ? text : `${shown}… (${text.length.toLocaleString('en')} characters)`;
}

/** Scripts whose letters look like Latin ones. */
const LOOK_ALIKE =
  /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Cherokee}\p{Script=Lisu}]/u;
const LATIN = /\p{Script=Latin}/u;
/** Mathematical, full-width and other variants of letters, which compatibility normalisation turns into plain ones. */
const isVariant = (word: string) => word.normalize('NFKC') !== word.normalize('NFC');

/** Letters that look like Latin ones: Cyrillic, Greek, Armenian, Cherokee, and nearly all of Lisu. */
const TWINS =
  /^(?:[асеорхуѕіјһԁԛԝӏАВСЕНІЈКМОРЅТХУЗ]|[ονραυχγΑΒΕΖΗΙΚΜΝΟΡΤΥΧ]|[օոսհցյզՏԼՕ]|[ᎠᎡᎢᎪᎫᎬᎳᎷᎻᏀᏃᏏᏙᏚᏞᏟᏢᏦᏴ]|\p{Script=Lisu})+$/u;
/** In texts of those scripts, shorter ones are common words. */
const SHORTEST_TWIN = 3;

/** A word in which all letters are of another script and look like Latin ones. */
function isTwin(word: string): boolean {
  const letters = word.replace(/[\p{N}.-]/gu, '').normalize('NFC');
  return [...letters].length >= SHORTEST_TWIN && TWINS.test(letters);
}

/** Words that mix Latin with look-alike letters, or consist only of those, each with their code points. */
export function lookAlikes(text: string): readonly { readonly word: string; readonly letters: string }[] {
  const words = text.slice(0, LONGEST_JUDGED).match(/[\p{L}\p{M}\p{N}.-]+/gu) ?? [];
  return words
    .filter((word) => (LATIN.test(word) && LOOK_ALIKE.test(word)) || isTwin(word) || isVariant(word))
    .slice(0, MOST_TOLD)
    .map((word) => ({ word, letters: foreignLetters(word) }));
}

const LONGEST_JUDGED = 2_000;
const MOST_TOLD = 5;

/** Whether a host is spelt with anything but plain letters, or hides such a spelling behind `xn--`. */
export const isPlainHost = (host: string): boolean =>
  /^[a-z0-9.-]+$/.test(host) && !host.split('.').some((label) => label.startsWith('xn--'));

function foreignLetters(word: string): string {
  const foreign = [...word].filter((letter) => LOOK_ALIKE.test(letter) || isVariant(letter));
  return [...new Set(foreign)].slice(0, MOST_TOLD).map(codePoint).join(', ');
}

const named = (character: string) => `⟨${codePoint(character)}⟩`;

function codePoint(character: string): string {
  const hex = (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
  return `U+${hex}`;
}
