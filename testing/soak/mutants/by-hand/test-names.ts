/** Texts in single or double quotes, or in backticks. */
const QUOTED = /'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`/g;

/**
 * Whether a file of tests has one with these words in its name, alone or in a table whose rows take the place of `%s`. A
 * mutant whose test was renamed would not be tried, and nobody would see that.
 */
export function hasTest(source: string, words: string): boolean {
  const texts = [...source.matchAll(QUOTED)].map(([, one, two, three]) =>
    (one ?? two ?? three ?? '').replaceAll('\\', ''),
  );
  const names = texts.flatMap((text) => {
    const [before, after] = text.split('%s');
    return after === undefined ? [text] : texts.map((row) => `${before}${row}${after}`);
  });
  return names.some((name) => name.includes(words));
}
