import { fromPyPi } from '../../testing/installed/python.ts';
import { type Server, startServer } from '../../testing/installed/server.ts';
import { type Fixture, VALUE } from './fixture.ts';

/** The newest release for Python 3.11. */
const RELEASE = 'mitmproxy==11.0.2';
const START = 'from mitmproxy.tools.main import mitmdump; mitmdump()';

/** Starts mitmproxy as a reverse proxy that sets a header. It does not verify the upstream. */
export async function startMitmproxy(fixture: Fixture, upstream: number): Promise<Server> {
  const packages = await fromPyPi(RELEASE);
  const python = { program: 'python3', env: { PYTHONPATH: packages, PYTHONDONTWRITEBYTECODE: '1' } };
  return startServer('mitmproxy', python, async (port) => [
    ...['-c', START, '--quiet', '--mode', `reverse:https://127.0.0.1:${upstream}`],
    ...['--listen-host', '127.0.0.1', '--listen-port', String(port)],
    ...['--set', `confdir=${fixture.directory}/mitmproxy`, '--ssl-insecure'],
    ...['--modify-headers', `/~q/X-Api-Key/${VALUE}`],
  ]);
}
