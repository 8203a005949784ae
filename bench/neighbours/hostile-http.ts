import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { type Act, type HttpAct, RANDOM_TEXT } from './acts.ts';
import { atRate, type HostileRun, sleep } from './doing.ts';

const HOST = '127.0.0.1';
/** The delay before an ended connection is opened again; a real pod could not reconnect much faster for long. */
const REOPENED_MS = 5_000;

export async function doSilent(act: Extract<Act, { kind: 'silent' }>, doing: HostileRun): Promise<void> {
  for (const from of act.from) {
    const all = Array.from({ length: act.each }, () => keepSilent(act.port, from, doing));
    await Promise.all(all);
  }
}

/** Resolves after the first attempt. */
async function keepSilent(port: number, from: string, doing: HostileRun): Promise<void> {
  const socket = opened(port, from, doing);
  socket.once('connect', () => doing.count('connected'));
  socket.once('close', () => {
    doing.count('ended');
    setTimeout(() => void (doing.signal.aborted || keepSilent(port, from, doing)), REOPENED_MS);
  });
  await Promise.race([once(socket, 'connect'), once(socket, 'close')]).catch(() => undefined);
}

export async function doHttp(act: HttpAct, doing: HostileRun): Promise<void> {
  switch (act.kind) {
    case 'requests':
      atRate(act.perSecond, doing, () => ask(afresh(act), doing));
      return;
    case 'pipelined':
      atRate(act.perSecond, doing, () => ask(repeated(act), doing));
      return;
    case 'slow-reads':
      for (let i = 0; i < act.connections; i += 1) readSlowly(act, doing);
      break;
    case 'slow-writes':
      for (let i = 0; i < act.connections; i += 1) writeSlowly(act, doing);
      break;
    case 'tunnels':
      for (let i = 0; i < act.kept; i += 1) keepTunnel(act, doing);
      atRate(act.perSecond, doing, async () => (await tunnel(act, doing)).destroy());
      break;
  }
  await sleep(500);
}

function repeated({
  head,
  body: [text, count] = ['', 0],
  ...act
}: Extract<HttpAct, { kind: 'pipelined' }>): HttpAct {
  return { ...act, head: `${head}${text.repeat(count)}`.repeat(act.times) };
}

/** Only short bodies are searched, since only they contain the placeholder. */
function afresh(act: HttpAct): HttpAct {
  const { head, body } = act;
  const text = randomBytes(32).toString('base64url');
  const replaced = body !== undefined && body[1] === 1 && body[0].length < 1_024;
  return {
    ...act,
    head: head.replace(RANDOM_TEXT, text),
    ...(replaced ? { body: [body[0].replace(RANDOM_TEXT, text), 1] as const } : {}),
  };
}

/** Sends the whole request and reads the whole answer. */
async function ask(act: HttpAct, doing: HostileRun): Promise<void> {
  const socket = opened(act.port, act.from, doing);
  send(act, socket);
  let status = 'ended without an answer';
  socket.once('data', (bytes) => {
    status = String(bytes).slice(9, 12);
  });
  socket.setTimeout(10_000, () => socket.destroy());
  await once(socket, 'close').catch(() => undefined);
  doing.count(status);
}

function send({ head, body }: HttpAct, socket: Socket): void {
  socket.write(Buffer.from(head, 'latin1'));
  if (body !== undefined) socket.write(body[0].repeat(body[1]));
}

function readSlowly(act: HttpAct, doing: HostileRun): void {
  const socket = opened(act.port, act.from, doing);
  send(act, socket);
  socket.once('data', (bytes) => doing.count(String(bytes).slice(9, 12)));
  socket.on('data', (bytes) => {
    socket.pause();
    setTimeout(() => socket.resume(), (bytes.length / (32 * 1024)) * 1_000);
  });
  again(socket, doing, () => readSlowly(act, doing));
}

function writeSlowly(act: HttpAct, doing: HostileRun): void {
  const socket = opened(act.port, act.from, doing);
  socket.write(Buffer.from(act.head, 'latin1'));
  const drip = setInterval(() => socket.writable && socket.write('x'.repeat(2 * 1024)), 1_000);
  socket.once('data', (bytes) => doing.count(String(bytes).slice(9, 12)));
  socket.once('close', () => clearInterval(drip));
  again(socket, doing, () => writeSlowly(act, doing));
}

async function keepTunnel(act: HttpAct, doing: HostileRun): Promise<void> {
  const socket = await tunnel(act, doing);
  again(socket, doing, () => void keepTunnel(act, doing));
}

async function tunnel(act: HttpAct, doing: HostileRun): Promise<Socket> {
  const socket = opened(act.port, act.from, doing);
  send(act, socket);
  const [bytes] = await Promise.race([once(socket, 'data'), once(socket, 'close')]).catch(() => []);
  doing.count(Buffer.isBuffer(bytes) ? String(bytes).slice(9, 12) : 'ended without an answer');
  return socket;
}

function again(socket: Socket, doing: HostileRun, act: () => void): void {
  const repeat = () => setTimeout(() => doing.signal.aborted || act(), REOPENED_MS);
  if (socket.closed) repeat();
  else
    socket.once('close', () => {
      doing.count('ended');
      repeat();
    });
}

function opened(port: number, from: string, { signal }: HostileRun): Socket {
  const socket = connect({ port, host: HOST, localAddress: from });
  socket.on('error', () => undefined);
  signal.addEventListener('abort', () => socket.destroy());
  socket.resume();
  return socket;
}
