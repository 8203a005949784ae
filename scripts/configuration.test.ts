import { settings } from '@space/broker-kit';
import { expect, test } from 'vitest';
import { generated, section } from './configuration.ts';

const program = (variables: Parameters<typeof section>[0]['variables']) => ({
  title: 'Some program',
  source: 'some/config.ts',
  variables,
});

test('a variable is described with its default, its bounds and its sentence', () => {
  const page = section(program({ PORT: settings.port(8080).describe('Port that is | listened on.') }));
  expect(page).toContain('| `PORT` | `8080` | 0 to 65535 | Port that is \\| listened on. |');
});

test('what has no default and is not optional is required', () => {
  expect(section(program({ SPACE_NAME: settings.space }))).toContain('| `SPACE_NAME` | **required** |');
});

test.each([
  ['nothing is said', settings.port(1)],
  ['no sentence is said', settings.port(1).describe('the port')],
])('a variable of which %s is an error that names it', (_, variable) => {
  expect(() => section(program({ SOME_PORT: variable }))).toThrow(/SOME_PORT of some\/config\.ts/);
});

test('every program has a section, and no default is a value that cannot be written', () => {
  const text = generated()
    .map((file) => file.text)
    .join('');
  for (const title of ['Operator', 'Database broker', 'Object-storage broker', 'Egress gateway'])
    expect(text).toContain(`## ${title}\n`);
  expect(text).not.toMatch(/\[object|`` \|/);
});
