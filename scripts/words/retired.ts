/** A word that the sources have no more, and what is said in its place. */
export interface Retired {
  readonly word: string;
  readonly instead: string;
}

export interface Use extends Retired {
  readonly file: string;
  readonly line: number;
}

/** Reads the table under the heading `## Retired words` of docs/glossary.md. */
export function retiredOf(page: string): Retired[] {
  const [, section = ''] = page.split(/^## Retired words$/m);
  const rows = section.matchAll(/^\| `([^`]+)` \| (.+?) \|$/gm);
  const retired = [...rows].map(([, word = '', instead = '']) => ({ word, instead }));
  if (retired.length === 0) throw new Error('the section "Retired words" has no table');
  return retired;
}

/** Where the sources use them, as whole words. */
export function usesOf(sources: ReadonlyMap<string, string>, retired: readonly Retired[]): Use[] {
  const whole = retired.map(({ word, instead }) => ({
    ...{ word, instead },
    pattern: new RegExp(`(?<![\\w$])${RegExp.escape(word)}(?![\\w$])`),
  }));
  return [...sources].flatMap(([file, text]) => {
    const present = whole.filter(({ word }) => text.includes(word));
    if (present.length === 0) return [];
    return text
      .split('\n')
      .flatMap((line, i) =>
        present
          .filter(({ pattern }) => pattern.test(line))
          .map(({ word, instead }) => ({ file, line: i + 1, word, instead })),
      );
  });
}
