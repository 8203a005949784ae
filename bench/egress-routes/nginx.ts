import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { askAll, ROUTE_HEADER } from '../../brokers/egress/testing/pipeline.ts';
import { POLICY_ROUTES, routeOf, SELECTOR } from '../../brokers/egress/testing/policy.ts';
import { fromDebian } from '../../testing/installed/debian.ts';
import { startServer } from '../../testing/installed/server.ts';

/** The routes to which nginx dispatches the lines by its `location`s, requested over loopback. */
export async function askNginx(directory: string, lines: readonly string[]): Promise<readonly number[]> {
  const nginx = await fromDebian('nginx', 'usr/sbin/nginx');
  const paths = [...new Set(POLICY_ROUTES.map(({ path }) => path))];
  const locations = paths.map((path, index) => {
    const matcher = path.includes('*') ? `~ "^${path.replaceAll('*', '[^/]+')}$"` : `= ${path}`;
    return `location ${matcher} { set $path ${index}; add_header ${ROUTE_HEADER} "$path $request_method $arg_${SELECTOR}"; return 204; }`;
  });
  const server = await startServer('nginx', nginx, async (port) => {
    await mkdir(directory, { recursive: true });
    const file = join(directory, 'routes.conf');
    await writeFile(
      file,
      `daemon off; worker_processes 1; error_log /dev/null; pid ${directory}/nginx.pid; events { worker_connections 64; }
http { access_log off; keepalive_requests 1000000; large_client_header_buffers 8 32k;
client_body_temp_path ${directory}; proxy_temp_path ${directory}; fastcgi_temp_path ${directory};
uwsgi_temp_path ${directory}; scgi_temp_path ${directory};
server { listen 127.0.0.1:${port}; ${locations.join('\n')} location / { return 204; } } }`,
    );
    return ['-c', file, '-p', directory, '-e', '/dev/null'];
  });
  try {
    return (await askAll(server.port, lines)).map((answer) => {
      const [index, method = '', ...kinds] = answer.split(' ');
      return answer === '' ? -1 : routeOf(method, paths[Number(index)], kinds);
    });
  } finally {
    await server.stop();
  }
}
