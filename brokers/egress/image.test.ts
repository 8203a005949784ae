import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const run = promisify(execFile);

it('the program of the image leaves no core dump when it crashes', async () => {
  const dockerfile = await readFile(join(import.meta.dirname, 'Dockerfile'), 'utf8');
  const [, command = '[]'] = /^ENTRYPOINT (\[.*\])$/m.exec(dockerfile) ?? [];
  const tells = 'console.log(JSON.stringify(process.report.getReport().userLimits.core_file_size_blocks))';
  const [shell = '', ...words] = (JSON.parse(command) as string[]).map((word) =>
    word.replace('exec node', `exec '${process.execPath}'`).replace('/app/main.mjs', `-e '${tells}'`),
  );
  const { stdout } = await run(shell, words);
  expect(JSON.parse(stdout)).toMatchObject({
    soft: expect.toBeOneOf([0, '0']),
    hard: expect.toBeOneOf([0, '0']),
  });
});
