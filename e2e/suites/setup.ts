/**
 * Brings up a Space for the suites, on a cluster of their own, and takes both down after them (SPACE_KEEP=1 keeps
 * both).
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import type { TestProject } from 'vitest/node';
import type { Installed } from './support/installed.ts';

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  // The project of this name uses a cluster of three nodes.
  const kind = project.name === 'nodes' ? ['nodes'] : [];
  const cluster = (act: 'up' | 'down') => runCluster(act, kind);
  const keeps = process.env['SPACE_KEEP'] === '1';
  // Files that an interrupted run has left would look like those of this run.
  if (!keeps) await cluster('down');
  const end = async () => {
    if (!keeps) await cluster('down');
  };
  const output = await cluster('up').catch(async (error: unknown) => {
    await end(); // otherwise nothing would print it
    throw error;
  });
  project.provide('installed', JSON.parse(output) as Installed);
  return end;
}

/** This runs in a process of its own: the code of `npm run up` as it is, outside vitest's module runner. */
async function runCluster(act: 'up' | 'down', kind: readonly string[]): Promise<string> {
  const child = spawn(process.execPath, [resolve(import.meta.dirname, 'cluster.ts'), act, ...kind], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text) => {
    output += text;
  });
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`the suites’ cluster did not go ${act}`);
  return output;
}
