import { createSocket } from 'node:dgram';
import { once } from 'node:events';

/** What a name has: addresses of both kinds, or another name and what that has. */
export interface Records {
  /** Names that are passed on the way, the last of which has the addresses. */
  readonly through?: readonly string[];
  readonly addresses: readonly string[];
}

/** A DNS server on loopback that answers as the function says; a name without records does not exist. */
export interface TestDns {
  readonly address: string;
  close(): Promise<void>;
}

const [A, CNAME, AAAA] = [1, 5, 28];
const NO_SUCH_NAME = 3;
/** No answer may be cached, since the next query may get another one. */
const TTL_S = 0;

export async function startDns(
  recordsOf: (name: string, type: 'A' | 'AAAA') => Records | undefined,
): Promise<TestDns> {
  const socket = createSocket('udp4');
  socket.on('message', (query, from) => {
    const { name, end } = readName(query, 12);
    const type = query.readUInt16BE(end);
    const records = type === A || type === AAAA ? recordsOf(name, type === A ? 'A' : 'AAAA') : undefined;
    const answers = records === undefined ? [] : resourceRecords(name, type, records);
    const header = Buffer.alloc(12);
    query.copy(header, 0, 0, 2);
    header.writeUInt16BE(0x8180 | (records === undefined ? NO_SUCH_NAME : 0), 2);
    header.writeUInt16BE(1, 4);
    header.writeUInt16BE(answers.length, 6);
    socket.send(Buffer.concat([header, query.subarray(12, end + 4), ...answers]), from.port, from.address);
  });
  await once(socket.bind(0, '127.0.0.1'), 'listening');
  return {
    address: `127.0.0.1:${socket.address().port}`,
    close: () => new Promise((resolve) => socket.close(() => resolve())),
  };
}

function resourceRecords(name: string, type: number, { through = [], addresses }: Records): Buffer[] {
  const names = [name, ...through];
  const chain = through.map((next, at) => resourceRecord(names[at] ?? name, CNAME, nameBytes(next)));
  const last = names.at(-1) ?? name;
  const fitting = addresses.filter((address) => address.includes(':') === (type === AAAA));
  return [...chain, ...fitting.map((address) => resourceRecord(last, type, addressBytes(address)))];
}

function resourceRecord(name: string, type: number, data: Buffer): Buffer {
  const fixed = Buffer.alloc(10);
  fixed.writeUInt16BE(type, 0);
  fixed.writeUInt16BE(1, 2);
  fixed.writeUInt32BE(TTL_S, 4);
  fixed.writeUInt16BE(data.length, 8);
  return Buffer.concat([nameBytes(name), fixed, data]);
}

function readName(bytes: Buffer, start: number): { readonly name: string; readonly end: number } {
  const labels: string[] = [];
  let at = start;
  for (let length = bytes[at] ?? 0; length > 0; length = bytes[at] ?? 0) {
    labels.push(bytes.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join('.').toLowerCase(), end: at + 1 };
}

function nameBytes(name: string): Buffer {
  const labels = name
    .split('.')
    .map((label) => Buffer.from(`${String.fromCharCode(label.length)}${label}`, 'latin1'));
  return Buffer.concat([...labels, Buffer.alloc(1)]);
}

/** An IPv6 address may be written with an IPv4 one at its end. */
function addressBytes(text: string): Buffer {
  if (!text.includes(':')) return Buffer.from(text.split('.').map(Number));
  const dotted = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(text);
  const tail = dotted === null ? Buffer.alloc(0) : addressBytes(dotted[2] ?? '');
  const [head = '', rest] = (dotted?.[1] ?? text).replace(/([^:]):$/, '$1').split('::');
  const groups = (part: string) =>
    Buffer.from(
      part
        .split(':')
        .filter(Boolean)
        .map((group) => group.padStart(4, '0'))
        .join(''),
      'hex',
    );
  const [left, right] = [groups(head), Buffer.concat([groups(rest ?? ''), tail])];
  return Buffer.concat([left, Buffer.alloc(16 - left.length - right.length), right]);
}
