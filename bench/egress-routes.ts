import { execFile, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import express from 'express';
import fc from 'fast-check';
import { decide, POLICY_ROUTES, targets } from '../brokers/egress/testing/targets.ts';
import type { Report } from './report.ts';

/**
 * What the gateway allows, replayed on the routers of upstreams: Express in this process, Go's net/http beside it. Any
 * target that one of them would take for another route than the gateway did is a hole, and ends the run.
 */
export async function run({ quick }: { readonly quick: boolean }): Promise<Report> {
  const count = quick ? 100_000 : 1_000_000;
  const directory = await mkdtemp(join(tmpdir(), 'space-bench-routes-'));
  try {
    const program = join(directory, 'dispatch');
    await promisify(execFile)('go', ['build', '-o', program, '.'], {
      cwd: join(import.meta.dirname, 'egress-routes'),
    });
    const allowed: { readonly method: string; readonly sent: string; readonly route: number }[] = [];
    let decided = 0;
    const began = performance.now();
    let deciding = 0;
    const batch = 50_000;
    for (let done = 0; done < count; done += batch) {
      const sample = fc.sample(targets(), { numRuns: batch, seed: done });
      const at = performance.now();
      for (const { method, raw } of sample) {
        const decision = decide(method, raw);
        decided += 1;
        if (typeof decision === 'object') allowed.push({ method, ...decision });
      }
      deciding += performance.now() - at;
    }
    const express = expressDispatch();
    const lines = allowed.map(({ method, sent }) => `${method} ${sent}`);
    const go = await goDispatch(program, lines);
    const holes = allowed.flatMap(({ method, sent, route }, index) => {
      const others = { express: express(method, sent), go: go[index] ?? -2 };
      return Object.entries(others)
        .filter(([, other]) => other !== route && other !== -1)
        .map(
          ([name, other]) => `${name} takes ${method} ${sent} for route ${other}, the gateway for ${route}`,
        );
    });
    if (holes.length > 0) throw new Error(holes.slice(0, 5).join('\n'));
    const unknown = allowed.filter((_, index) => go[index] === -1).length;
    return {
      title: 'Route decisions of the egress gateway against the routers of upstreams',
      rows: [
        { what: 'targets decided', n: decided },
        { what: 'allowed', n: allowed.length },
        { what: 'taken for another route by Express or Go', n: holes.length },
        { what: 'refused by Go all the same', n: unknown },
      ],
      figures: {
        targets: decided,
        allowed: allowed.length,
        holes: holes.length,
        decision_us: Math.round((deciding / decided) * 1_000_000) / 1_000,
        seconds: Math.round((performance.now() - began) / 100) / 10,
      },
    };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Express's own router, asked without a socket. */
function expressDispatch(): (method: string, url: string) => number {
  const router = express.Router();
  let hit = -1;
  POLICY_ROUTES.forEach(({ method, path }, index) => {
    const pattern = path
      .split('/')
      .map((segment, at) => (segment === '*' ? `:p${at}` : segment))
      .join('/');
    router[method.toLowerCase() as 'get'](pattern, () => {
      hit = index;
    });
  });
  return (method, url) => {
    hit = -1;
    const request = { method, url, headers: {} } as unknown as express.Request;
    router(request, {} as express.Response, () => undefined);
    return hit;
  };
}

function goDispatch(program: string, lines: readonly string[]): Promise<number[]> {
  const patterns = POLICY_ROUTES.map(
    ({ method, path }) =>
      `${method} ${path
        .split('/')
        .map((segment, at) => (segment === '*' ? `{p${at}}` : segment))
        .join('/')}`,
  );
  return new Promise((resolve, reject) => {
    const child = spawn(program, patterns, { stdio: ['pipe', 'pipe', 'inherit'] });
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (chunk) => {
      text += chunk;
    });
    child.on('error', reject).on('close', (code) => {
      const routes = text.trimEnd().split('\n').map(Number);
      if (code === 0 && routes.length === lines.length) resolve(routes);
      else reject(new Error(`Go's dispatcher ended with ${code} after ${routes.length} of ${lines.length}`));
    });
    child.stdin.end(`${lines.join('\n')}\n`);
  });
}
