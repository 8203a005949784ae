import { traceId } from '@space/contracts/fields';
import { bearer, errorAnswers, jsonContent, openApiFrame, schemaOf } from '@space/contracts/openapi';
import * as z from 'zod';
import { BUCKETS } from '../../objects/object-key.ts';
import { MAX_KEYS } from '../../objects/types.ts';
import { type Described, OPERATIONS } from './operations.ts';
import { type Operation, parametersOf } from './routes.ts';
import { KEY } from './schemas.ts';

const EVERYWHERE = [400, 403, 429, 500, 502, 503, 504];

const MEANINGS: Readonly<Record<number, string>> = {
  403: 'The one refusal: no workload principal, or no grant where one is needed.',
  404: 'Nothing of that name is there, or nothing that this Assistant may see.',
  409: 'An object of that name excludes it, or another request was faster, or the grant is not the current one.',
  411: 'A body needs a Content-Length.',
  412: 'A condition does not hold.',
  413: 'The body is more than one request may bring.',
  416: 'The object has no such bytes.',
  502: 'The S3 server failed.',
  504: 'The S3 server did not answer in time.',
  507: "The Capsule's quota is full.",
};

/** The schemas of the variables in paths. */
const PATH: Readonly<Record<string, object>> = {
  bucket: { type: 'string', enum: BUCKETS },
  key: { ...KEY, description: 'Slashes stand unescaped, every other byte may be escaped.' },
  upload_id: { type: 'string', pattern: '^[0-9a-f]{32}$' },
  number: { type: 'integer', minimum: 1, maximum: 10_000 },
};

const QUERY: Readonly<Record<string, object>> = {
  prefix: { type: 'string', maxLength: 900 },
  delimiter: { const: '/' },
  cursor: { type: 'string', minLength: 1 },
  limit: { type: 'integer', minimum: 1, maximum: MAX_KEYS },
  after: { type: 'integer', minimum: 0, maximum: 10_000 },
};

const HEADERS: Readonly<Record<string, object>> = {
  Range: { type: 'string', pattern: '^bytes=([0-9]{1,18}-[0-9]{0,18}|-[0-9]{1,18})$' },
};
/** The schema of header values. */
const HEADER = { type: 'string', pattern: '^[\\x20-\\x7e]{0,1024}$' };

/** Called by `scripts/generate.ts`. */
export function generated(): readonly { readonly path: string; readonly text: string }[] {
  const text = `${JSON.stringify(dataDocument(), null, 2)}\n`;
  return [{ path: 'docs/wire/objectstore-data.openapi.generated.json', text }];
}

/** The OpenAPI 3.1 document of the object routes, generated from the schemas that parse requests. */
export function dataDocument(): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const [name, one] of Object.entries(OPERATIONS)) {
    paths[one.at] = { ...paths[one.at], [one.method]: operationOf(name as keyof typeof OPERATIONS, one) };
  }
  return openApiFrame('Objects of an Assistant', paths, {
    workload: bearer('The workload principal, spc_osw_…'),
  });
}

function operationOf(
  name: Operation,
  { at, summary, body, answer, headers = [], errors }: Described,
): object {
  const inPath = [...at.matchAll(/\{(\w+)\}/g)].map(([, part = '']) => ({
    name: part,
    in: 'path',
    required: true,
    schema: PATH[part],
  }));
  const inQuery = parametersOf(name).map((part) => ({ name: part, in: 'query', schema: QUERY[part] }));
  const inHeader = headers.map((part) => ({ name: part, in: 'header', schema: HEADERS[part] ?? HEADER }));
  const answers = errorAnswers([...EVERYWHERE, ...errors], MEANINGS);
  return {
    operationId: name,
    summary,
    security: [{ workload: [] }],
    parameters: [...inPath, ...inQuery, ...inHeader],
    ...(body === undefined ? {} : { requestBody: { required: true, content: contentOf(body) } }),
    responses: { ...doneOf(answer), ...(answer === 'nothing' ? withoutContent(answers) : answers) },
  };
}

function contentOf(body: z.ZodType | 'bytes'): object {
  if (body === 'bytes')
    return { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } };
  return jsonContent(schemaOf(body, 'input'));
}

function doneOf(answer: Described['answer']): object {
  if (typeof answer !== 'string') {
    const schema = schemaOf(z.strictObject({ ...answer.shape, trace_id: traceId }));
    return { '200': { description: 'Done.', content: jsonContent(schema) } };
  }
  const content =
    answer === 'bytes' ? { content: { '*/*': { schema: { type: 'string', format: 'binary' } } } } : {};
  return {
    '200': { description: 'The object.', ...content },
    '206': { description: 'The range of it.', ...content },
    '304': { description: 'It is what the condition says.' },
  };
}

function withoutContent(answers: Readonly<Record<string, object>>): object {
  return Object.fromEntries(
    Object.entries(answers).map(([status, { content: _, ...rest }]: [string, { content?: object }]) => [
      status,
      rest,
    ]),
  );
}
