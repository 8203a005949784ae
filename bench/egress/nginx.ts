import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fromDebian } from '../../testing/installed/debian.ts';
import { type Server, startServer } from '../../testing/installed/server.ts';
import { type Fixture, HOST, VALUE } from './fixture.ts';

/** Starts nginx as one process, so that its processor time is known. */
async function startNginx(
  name: string,
  { directory }: Fixture,
  http: (port: number) => string,
): Promise<Server> {
  const nginx = await fromDebian('nginx', 'usr/sbin/nginx');
  return startServer(name, nginx, async (port) => {
    const file = join(directory, `${name}.conf`);
    const own = join(directory, name);
    await writeFile(
      file,
      `daemon off; master_process off; error_log /dev/null; pid ${own}.pid; events { worker_connections 4096; }
http { access_log off; keepalive_requests 100000000; client_body_temp_path ${own}-body; proxy_temp_path ${own}-proxy;
fastcgi_temp_path ${own}-fastcgi; uwsgi_temp_path ${own}-uwsgi; scgi_temp_path ${own}-scgi;
${http(port)} }`,
    );
    return ['-c', file, '-p', directory, '-e', '/dev/null'];
  });
}

/** Starts the outside host: TLS, kept-alive connections, answers of 1 KiB. */
export async function startUpstream(fixture: Fixture): Promise<Server> {
  await writeFile(join(fixture.directory, 'leaf.pem'), fixture.leaf.cert);
  await writeFile(join(fixture.directory, 'leaf.key'), fixture.leaf.key);
  const body = JSON.stringify({ rates: 'x'.repeat(1_012) });
  return startNginx(
    'upstream',
    fixture,
    (port) => `server { listen 127.0.0.1:${port} ssl; ssl_certificate ${fixture.directory}/leaf.pem;
ssl_certificate_key ${fixture.directory}/leaf.key; default_type application/json; location / { return 200 '${body}'; } }`,
  );
}

/** Starts nginx as people use it to put a header into requests: with `proxy_set_header`, towards a verified upstream. */
export function startNginxInjection(fixture: Fixture, upstream: number): Promise<Server> {
  return startNginx(
    'nginx',
    fixture,
    (port) => `upstream bank { server 127.0.0.1:${upstream}; keepalive 32; }
server { listen 127.0.0.1:${port}; location / { proxy_pass https://bank; proxy_http_version 1.1; proxy_set_header Connection "";
proxy_set_header Host ${HOST}; proxy_set_header X-Api-Key ${VALUE}; proxy_ssl_server_name on; proxy_ssl_name ${HOST};
proxy_ssl_verify on; proxy_ssl_trusted_certificate ${fixture.authority}; } }`,
  );
}
