import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { expect, it } from 'vitest';

const TAKE = `
  const { freePort } = await import(${JSON.stringify(new URL('ports.ts', import.meta.url).href)});
  const ports = [];
  for (let count = 0; count < 60; count += 1) ports.push(await freePort());
  console.log(JSON.stringify(ports));
  process.stdin.resume();
`;

it('no port is issued twice, by one process or by several at the same time', async () => {
  const children = Array.from({ length: 4 }, () =>
    spawn(process.execPath, ['--input-type=module', '-e', TAKE], { stdio: ['pipe', 'pipe', 'inherit'] }),
  );
  const lines = await Promise.all(
    children.map(
      (child) => new Promise<string>((resolve) => child.stdout.setEncoding('utf8').once('data', resolve)),
    ),
  );
  const ends = children.map(({ stdout }) => text(stdout));
  for (const { stdin } of children) stdin.end();
  await Promise.all(ends);
  const ports: number[] = lines.flatMap((line) => JSON.parse(line));
  expect(ports).toHaveLength(240);
  expect(new Set(ports).size).toBe(240);
});
