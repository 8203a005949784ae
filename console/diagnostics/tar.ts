/** A file of an archive. */
export interface Entry {
  readonly name: string;
  readonly content: string;
}

const BLOCK = 512;

/** The bytes of a tar archive (ustar), one file at a time. Names are constants, plain and short. */
export async function* tar(entries: AsyncIterable<Entry>, at: Date): AsyncGenerator<Buffer> {
  for await (const { name, content } of entries) {
    const bytes = Buffer.from(content);
    yield header(name, bytes.length, at);
    yield bytes;
    yield Buffer.alloc((BLOCK - (bytes.length % BLOCK)) % BLOCK);
  }
  yield Buffer.alloc(2 * BLOCK);
}

function header(name: string, size: number, at: Date): Buffer {
  if (name.length > 100 || !/^[A-Za-z0-9](?:[A-Za-z0-9_/-]|\.(?!\.))*$/.test(name))
    throw new TypeError('no name of a file of ours');
  const block = Buffer.alloc(BLOCK);
  const number = (value: number, from: number, length: number) =>
    block.write(`${value.toString(8).padStart(length - 1, '0')}\0`, from, 'latin1');
  block.write(name, 0, 'latin1');
  number(0o644, 100, 8);
  number(0, 108, 8);
  number(0, 116, 8);
  number(size, 124, 12);
  number(Math.floor(at.getTime() / 1000), 136, 12);
  block.write('        0', 148, 'latin1');
  block.write('ustar\x0000', 257, 'latin1');
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return block;
}
