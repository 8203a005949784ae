import { connect } from 'node:net';

/** The header in which an upstream's router reports the route. */
export const ROUTE_HEADER = 'x-route';

const AHEAD = 500;

/**
 * Sends request lines as they are, many on one connection, and answers what each got in `x-route`; empty for one that
 * the server refused.
 */
export async function askAll(port: number, lines: readonly string[]): Promise<readonly string[]> {
  const answers: string[] = [];
  while (answers.length < lines.length) {
    const before = answers.length;
    await askOnce(port, lines.slice(before, before + AHEAD), answers);
    // If a connection ends without an answer, its first request was the cause.
    if (answers.length === before) answers.push('');
  }
  return answers;
}

/** One connection, until all is answered or the server has ended it. */
function askOnce(port: number, lines: readonly string[], answers: string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    const due = answers.length + lines.length;
    let text = '';
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      text += chunk;
      for (let end = text.indexOf('\r\n\r\n'); end >= 0; end = text.indexOf('\r\n\r\n')) {
        const head = text.slice(0, end);
        const length = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0);
        if (text.length < end + 4 + length) return;
        text = text.slice(end + 4 + length);
        answers.push(
          head.startsWith('HTTP/1.1 204') ? (/\r\nx-route: *([^\r]*)/i.exec(head)?.[1] ?? '') : '',
        );
      }
      if (answers.length >= due) socket.end();
    });
    // A server that refuses a request may reset the connection; earlier answers remain valid.
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ECONNRESET' && error.code !== 'EPIPE') reject(error);
    });
    socket.on('close', () => resolve());
    socket.write(lines.map((line) => `${line} HTTP/1.1\r\nHost: api.bank.org\r\n\r\n`).join(''), 'latin1');
  });
}
