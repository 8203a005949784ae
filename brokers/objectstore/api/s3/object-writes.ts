import { ServiceError } from '@space/broker-kit';
import { deleteCondition, writeConditions } from '../../objects/object-headers.ts';
import { type ObjectKey, parseKey } from '../../objects/object-key.ts';
import { MAX_KEYS, type ObjectStore } from '../../objects/types.ts';
import { documentInTurns, mapInTurns } from '../../upstream/sinks.ts';
import {
  childrenOf,
  isXmlText,
  textOf,
  type XmlElement,
  type XmlNode,
  type XmlShape,
} from '../../upstream/xml.ts';
import type { Admission } from '../admission.ts';
import { writeHead } from '../exchange.ts';
import { notImplemented } from './errors.ts';
import { sourceOf } from './headers.ts';
import {
  answerAlive,
  bodyOf,
  copied,
  document,
  type Handlers,
  malformed,
  ownHeaders,
  xml,
} from './request.ts';
import { bucketOf, keyOf } from './routes.ts';

type Name = 'PutObject' | 'CopyObject' | 'DeleteObject' | 'DeleteObjects';

/** Operations that write or delete whole objects. */
export function writeHandlers(store: ObjectStore, admission: Admission): Handlers<Name> {
  return {
    PutObject: async (admitted) => {
      const body = bodyOf(admitted);
      // The checksum was verified here, so the upstream need not verify it again.
      const { 'content-md5': _verified, ...conditions } = writeConditions(admitted.headers);
      const headers = { ...ownHeaders(admitted.headers), ...conditions };
      const ref = { bucket: bucketOf(admitted), key: keyOf(admitted) };
      admission.transfer(admitted.exchange);
      const { etag } = await store.put(admitted.call, ref, body, headers);
      writeHead(admitted.exchange, 200, { ...body.checksums, etag, 'content-length': 0 }).end();
    },
    CopyObject: async (admitted) => {
      if (admitted.headers.has('if-match') || admitted.headers.has('if-none-match'))
        throw notImplemented('conditions on what a copy replaces');
      const directive = admitted.headers.get('x-amz-metadata-directive') ?? 'COPY';
      const replace = directive === 'REPLACE';
      if (!replace && directive !== 'COPY') throw new ServiceError('invalid_request', 'metadata directive');
      const headers = {
        'x-amz-metadata-directive': directive,
        ...(replace ? ownHeaders(admitted.headers) : {}),
      };
      const to = { bucket: bucketOf(admitted), key: keyOf(admitted) };
      const work = store.copy(admitted.call, sourceOf(admitted.headers), to, headers);
      await answerAlive(admission, admitted, 'CopyObjectResult', work.then(copied));
    },
    DeleteObject: async (admitted) => {
      const ref = { bucket: bucketOf(admitted), key: keyOf(admitted) };
      await store.delete(admitted.call, ref, deleteCondition(admitted.headers));
      writeHead(admitted.exchange, 204, {}).end();
    },
    DeleteObjects: async (admitted) => {
      const bucket = bucketOf(admitted);
      const node = await document(admission, admitted, DELETE, MIB);
      const { inTurn } = admitted.call;
      const asked = await mapInTurns(childrenOf(node, 'Object'), askedOf, inTurn);
      if (asked.length < 1) throw malformed();
      const valid = asked.flatMap(({ key }) => key ?? []);
      const failed =
        valid.length === 0 ? new Set<string>() : await store.deleteMany(admitted.call, bucket, valid);
      const quiet = textOf(node, 'Quiet') === 'true';
      const codeOf = ({ key, refused }: Asked) =>
        refused ?? (key !== undefined && failed.has(key) ? 'InternalError' : undefined);
      const told = quiet ? asked.filter((each) => codeOf(each) !== undefined) : asked;
      const written = (each: Asked): XmlElement => {
        const code = codeOf(each);
        return code === undefined ? ['Deleted', [['Key', each.text]]] : errorOf(each.text, code);
      };
      xml(admitted, await documentInTurns('DeleteResult', told, written, { inTurn }));
    },
  };
}

/** An object to delete, or the code that refuses it. */
interface Asked {
  readonly text: string;
  readonly key?: ObjectKey;
  readonly refused?: string;
}

function askedOf(node: XmlNode): Asked {
  const text = textOf(node, 'Key') ?? '';
  // Parsers differ about characters outside XML, and the key is repeated in the answer.
  if (!isXmlText(text)) throw malformed();
  // A version or a condition: if it were ignored, another object than the intended one would be deleted.
  if (LIMITED.some((name) => node[name] !== undefined)) return { text, refused: 'NotImplemented' };
  const key = parseKey(text);
  return key === undefined ? { text, refused: 'InvalidArgument' } : { text, key };
}

const DELETE: XmlShape = { root: 'Delete', items: ['Object'], most: MAX_KEYS };
const MIB = 1024 * 1024;

const LIMITED = ['VersionId', 'ETag', 'LastModifiedTime', 'Size'];

function errorOf(key: string, code: string): XmlElement {
  return [
    'Error',
    [
      ['Key', key],
      ['Code', code],
      ['Message', ''],
    ],
  ];
}
