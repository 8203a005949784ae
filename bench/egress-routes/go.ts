import { join } from 'node:path';
import { POLICY_ROUTES, routeOf, SELECTOR } from '../../brokers/egress/testing/policy.ts';
import { run } from '../../e2e/cluster/run.ts';

/** The routes to which Go's net/http dispatches the lines, by a program with its parser and ServeMux that is built in `directory`. */
export async function askGo(directory: string, lines: readonly string[]): Promise<readonly number[]> {
  const program = join(directory, 'dispatch');
  await run(['go', 'build', '-o', program, '.'], { cwd: import.meta.dirname });
  // ServeMux accepts a pattern only once, so the program prints the selector's value beside it.
  const known = [...new Map(POLICY_ROUTES.map((route) => [`${route.method} ${route.path}`, route])).values()];
  const patterns = known.map(
    ({ method, path }) =>
      `${method} ${path
        .split('/')
        .map((segment, at) => (segment === '*' ? `{p${at}}` : segment))
        .join('/')}`,
  );
  const text = await run([program, SELECTOR, ...patterns], { input: `${lines.join('\n')}\n` });
  const answers = text.trimEnd().split('\n');
  if (answers.length !== lines.length)
    throw new Error(`the Go program answered ${answers.length} of ${lines.length} lines`);
  return answers.map((answer) => {
    const [index, kind = ''] = answer.split(' ');
    const route = known[Number(index)];
    if (route === undefined) return -1;
    return routeOf(route.method, route.path, [Buffer.from(kind, 'hex').toString()]);
  });
}
