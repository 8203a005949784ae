import { expect, test } from 'vitest';
import { retiredOf, usesOf } from './retired.ts';

const PAGE = `# Glossary

| \`kept\` | a word of another table |

## Retired words

| From | To |
| --- | --- |
| \`oldName\` | \`newName\` |
| \`#hidden\` | nothing: it is gone |
`;

test('the words of the glossary’s last table are retired, and of no other', () => {
  expect(retiredOf(PAGE)).toEqual([
    { word: 'oldName', instead: '`newName`' },
    { word: '#hidden', instead: 'nothing: it is gone' },
  ]);
  expect(() => retiredOf('# Glossary\n')).toThrow(/no table/);
});

test('a retired word is found by file and line, as a whole word only', () => {
  const sources = new Map([
    ['a.ts', "const a = 1;\n// says oldName\nthis.#hidden = 'x';\n"],
    ['b.ts', 'const oldNames = 1;\nconst $oldName = 2;\nkept();\n'],
  ]);
  expect(usesOf(sources, retiredOf(PAGE))).toEqual([
    { file: 'a.ts', line: 2, word: 'oldName', instead: '`newName`' },
    { file: 'a.ts', line: 3, word: '#hidden', instead: 'nothing: it is gone' },
  ]);
});
