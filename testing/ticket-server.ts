import { spawn } from 'node:child_process';
import { eventually } from './eventually.ts';
import { freePort } from './ports.ts';

const OPENSSL = 'openssl';

/**
 * A server of TLS 1.3 on loopback that sends so many tickets of each session, and a page for each request; Node's own sends two. The
 * pair are PEM files.
 */
export async function startTicketServer(
  { cert, key }: { readonly cert: string; readonly key: string },
  tickets: number,
): Promise<{ readonly port: number; end(): void }> {
  const port = await freePort();
  const how = ['-tls1_3', '-num_tickets', String(tickets), '-www', '-accept', `127.0.0.1:${port}`];
  const server = spawn(OPENSSL, ['s_server', '-cert', cert, '-key', key, ...how], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  let said = '';
  server.stdout.on('data', (text) => {
    said += text;
  });
  await eventually(() => said.includes('ACCEPT'), { what: 'the server' });
  return { port, end: () => void server.kill('SIGKILL') };
}
