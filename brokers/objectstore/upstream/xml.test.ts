import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { childrenOf, parseXml, textOf, XmlError, XmlReader, type XmlShape, xmlDocument } from './xml.ts';

const DELETE: XmlShape = { root: 'Delete', items: ['Object'], most: 3 };
const LIST: XmlShape = { root: 'List', items: ['Contents', 'Prefix'], most: 3, answer: true };
const read = (text: string, shape: XmlShape = DELETE) => parseXml(Buffer.from(text), shape);
const keysOf = (text: string, shape?: XmlShape) =>
  childrenOf(read(text, shape), 'Object').map((one) => textOf(one, 'Key'));

describe('a document of S3', () => {
  it.each([
    [
      'with a declaration and a namespace',
      '<?xml version="1.0"?>\n<Delete xmlns="urn:x"><Object><Key>a</Key></Object></Delete>',
    ],
    ['with a prefix', '<s:Delete xmlns:s="urn:x"><s:Object><s:Key>a</s:Key></s:Object></s:Delete>'],
    ['with entities', '<Delete><Object><Key>&#97;</Key></Object></Delete>'],
    ['with CDATA', '<Delete><Object><Key><![CDATA[a]]></Key></Object></Delete>'],
    [
      'with comments and instructions',
      '<!-- x --><Delete><?x y?><Object><!-- x --><Key>a</Key></Object></Delete>',
    ],
  ])('is read %s', (_, text) => {
    expect(keysOf(text)).toEqual(['a']);
  });

  it.each([
    ['another root', '<Remove/>'],
    ['no root', ''],
    ['an end that is missing', '<Delete><Object>'],
    ['text behind it', '<Delete/>x'],
    ['a second root', '<Delete/><Delete/>'],
    ['a type of its own', '<!DOCTYPE Delete><Delete/>'],
    [
      'an entity of its own',
      '<!DOCTYPE Delete [<!ENTITY a "b">]><Delete><Object><Key>&a;</Key></Object></Delete>',
    ],
    ['an entity that is none', '<Delete><Object><Key>&constructor;</Key></Object></Delete>'],
    ['a fourth level', '<Delete><Object><Key><b/></Key></Object></Delete>'],
    ['one object too many', `<Delete>${'<Object/>'.repeat(4)}</Delete>`],
    ['too many fields', `<Delete><Object>${'<a/>'.repeat(33)}</Object></Delete>`],
    ['too many other elements', `<Delete>${'<a/>'.repeat(33)}</Delete>`],
    ['a text that is too long', `<Delete><Object><Key>${'a'.repeat(4_097)}</Key></Object></Delete>`],
    ['a character that is none', '<Delete><Object><Key>\u0001</Key></Object></Delete>'],
    ['an error in its place', '<Error><Code>a</Code></Error>'],
  ])('is refused with %s, and the error quotes nothing of it', (_, text) => {
    expect(() => read(text)).toThrow(XmlError);
    try {
      read(text);
    } catch (error) {
      expect([error instanceof Error && error.message, error instanceof Error && error.cause]).toEqual([
        'not the XML of an S3 message',
        undefined,
      ]);
    }
  });

  it('is refused if it is not UTF-8', () => {
    const latin1 = Buffer.from('<Delete><Object><Key>ä</Key></Object></Delete>', 'latin1');
    expect(() => parseXml(latin1, DELETE)).toThrow(XmlError);
  });

  it('of an answer may be an error, and contain more than was requested', () => {
    const reader = new XmlReader(LIST);
    reader.write(Buffer.from('   <?xml version="1.0"?>'.trimStart()));
    reader.write(Buffer.from(`${' '.repeat(1_000)}<Error><Code>SlowDown</Code></Error>`));
    expect(textOf(reader.end(), 'Code')).toBe('SlowDown');
    expect(reader.isError).toBe(true);
    const more = '<List><Contents><Owner><ID>x</ID></Owner><Key>a</Key></Contents><Note><b/></Note></List>';
    const list = read(more, LIST);
    expect(childrenOf(list, 'Contents').map((one) => textOf(one, 'Key'))).toEqual(['a']);
    expect(textOf(list, 'Note')).toBeUndefined();
    const long = `<List><Contents><Key>${'a'.repeat(5_000)}</Key></Contents><Note>b</Note></List>`;
    expect(childrenOf(read(long, LIST), 'Contents').map((one) => textOf(one, 'Key'))).toEqual([undefined]);
  });

  it('counts the items of all names together', () => {
    expect(() => read(`<List>${'<Contents/><Prefix/>'.repeat(2)}</List>`, LIST)).toThrow(XmlError);
  });

  it('has no value for a field that occurs twice', () => {
    expect(keysOf('<Delete><Object><Key>a</Key><Key>b</Key></Object></Delete>')).toEqual([undefined]);
    expect(keysOf('<Delete><Object><__proto__>a</__proto__></Object></Delete>')).toEqual([undefined]);
  });

  it('is parsed as it was written, wherever it was split', () => {
    const text = fc
      .string({ unit: 'binary', maxLength: 12 })
      .filter((one) => /^[\t\n\u0020-\ud7ff\ue000-\ufffd]*$/.test(one));
    fc.assert(
      fc.property(fc.array(text, { maxLength: 3 }), fc.nat(60), fc.nat(60), (keys, first, second) => {
        const written = Buffer.from(
          xmlDocument(
            'Delete',
            keys.map((key) => ['Object', [['Key', key]]] as const),
          ),
        );
        const reader = new XmlReader(DELETE);
        const [a, b] = [Math.min(first, second), Math.max(first, second)];
        for (const piece of [written.subarray(0, a), written.subarray(a, b), written.subarray(b)])
          reader.write(piece);
        expect(childrenOf(reader.end(), 'Object').map((one) => textOf(one, 'Key'))).toEqual(keys);
      }),
    );
  });

  it('throws only that it is not such a document', () => {
    const piece = fc.constantFrom(
      '<Delete>',
      '</Delete>',
      '<Object>',
      '</Object>',
      '<Key>',
      '</Key>',
      '<a b="c">',
      '&amp;',
      '&',
      ']]>',
      '<![CDATA[',
      '<!--',
      '<?',
      'x',
      '\u0000',
      '<',
      '"',
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 20 }), (pieces) => {
        try {
          read(pieces.join(''));
        } catch (error) {
          expect(error).toBeInstanceOf(XmlError);
        }
      }),
    );
  });
});

describe('the parsing of a document', () => {
  const MIB = 1024 * 1024;
  const fill = (before: string, piece: string) =>
    Buffer.from(before + piece.repeat(Math.floor((MIB - before.length) / piece.length)));

  /** Bytes that were decoded before the reader gave up, in pieces of 16 KiB as they come in turns. */
  function bytesRead(bytes: Buffer, shape: XmlShape): number {
    const reader = new XmlReader(shape);
    const decoded = vi.spyOn(TextDecoder.prototype, 'decode');
    let read = 0;
    try {
      for (let at = 0; at < bytes.length; at += 16 * 1024) reader.write(bytes.subarray(at, at + 16 * 1024));
      reader.end();
    } catch (error) {
      expect(error).toBeInstanceOf(XmlError);
    } finally {
      for (const [piece] of decoded.mock.calls) read += (piece as Uint8Array | undefined)?.byteLength ?? 0;
      decoded.mockRestore();
    }
    return read;
  }

  it.each([
    ['items', '<Delete>', '<Object/>'],
    ['levels', '', '<a>'],
    ['levels of the right names', '<Delete><Object>', '<Key>'],
    ['fields', '<Delete><Object>', '<a/>'],
    ['other elements', '<Delete>', '<a/>'],
    ['rubbish', '<Delete>', '<'],
    ['attributes', '<Delete', ` a=''`],
  ])('ends soon if it has too many %s', (_, before, piece) => {
    expect(bytesRead(fill(before, piece), { ...DELETE, most: 1_000 })).toBeLessThanOrEqual(32 * 1024);
  });

  it('ends soon if an element has many attributes, before it reads all of them', () => {
    const names = Array.from({ length: 100_000 }, (_, i) => ` a${i}=""`).join('');
    expect(bytesRead(Buffer.from(`<Delete${names}>`), DELETE)).toBeLessThanOrEqual(16 * 1024);
  });

  it.each([
    ['a name', '<', 'D'],
    ['the name of an end', '<Delete></', 'D'],
    ['a text', '<Delete>', 'x'],
    ['white space', '<Delete>', '\r'],
    ['references', '<Delete>', '&amp;'],
    ['a reference', '<Delete>&', 'a'],
    ['an attribute', '<Delete a="', 'x'],
    ['a comment', '<Delete><!--', '- '],
    ['an instruction', '<Delete><?a ', '? '],
    ['a piece of text as it is', '<Delete><Quiet><![CDATA[', ']]'],
    ['a document type', '<!DOCTYPE [', '['],
  ])('ends soon if %s has no end', (_, before, piece) => {
    expect(bytesRead(fill(before, piece), DELETE)).toBeLessThanOrEqual(96 * 1024);
  });

  it('reads each byte once, for any allowed document', () => {
    const one = '<Object><Key>&quot;a&#13;</Key><VersionId/></Object>';
    const whole = Buffer.from(`<Delete>${one.repeat(10_000)}</Delete>`);
    expect(bytesRead(whole, { ...DELETE, most: 10_000 })).toBe(whole.length);
  });
});
