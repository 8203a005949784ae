import type { IncomingMessage } from 'node:http';
import {
  bearerToken,
  digestOf,
  errorBody,
  isToken,
  newToken,
  type Secret,
  ServiceError,
} from '@space/broker-kit';
import type { ObjectStore, Tenant } from '../../objects/types.ts';
import type { Tenants } from '../../principals/tenants.ts';
import type { Usage } from '../../quota/rows.ts';
import type { Admission } from '../admission.ts';
import type { Cursors } from '../cursors.ts';
import { type Protocol, receivedHeaders, writeJson } from '../exchange.ts';
import { objectHandlers } from './objects.ts';
import { answer, type Handlers, noBody } from './request.ts';
import { matchRoute, type Operation, queryOf } from './routes.ts';
import { uploadHandlers } from './uploads.ts';

const GRANT = 'platform-grant';
/** Looked up in place of a missing credential, so that every refusal costs the same work. */
const NOBODY = digestOf(newToken('osw'));

export interface JsonOptions {
  readonly admission: Admission;
  readonly tenants: Tenants;
  readonly store: ObjectStore;
  readonly cursors: Cursors;
  /** The tenant's usage of the Capsule's quota. */
  readonly usage: (tenant: Tenant) => Promise<Usage>;
  /** The S3 keys of a tenant, in the form that the AWS SDKs' container credential providers read. */
  readonly s3Credentials: (tenant: Tenant) => Readonly<Record<string, string>>;
}

/** The routes of `docs/wire/objectstore-data.md`. */
export function createJsonProtocol(options: JsonOptions): Protocol {
  const { admission, tenants, store, cursors } = options;
  const handlers: Handlers<Exclude<Operation, 'healthz'>> = {
    ...objectHandlers(admission, store, cursors),
    ...uploadHandlers(admission, store),
    ...tenantHandlers(options),
  };
  return {
    serve: async (exchange) => {
      const { request } = exchange;
      const matched = matchRoute(request.method ?? '', exchange.path, (allow) => {
        exchange.common['allow'] = allow;
      });
      exchange.operation = matched.operation;
      if (matched.operation === 'healthz') return writeJson(exchange, 200, '{"status":"ok"}');
      const tenant = await admission.admit(exchange, await tenantOf(request, matched.operation, tenants));
      const headers = receivedHeaders(request.rawHeaders);
      for (const name of headers.keys())
        if (name.startsWith('x-amz-'))
          throw new ServiceError('invalid_request', 'a header of another protocol');
      const call = admission.callOf(exchange, tenant, headers.get(GRANT));
      const query = queryOf(exchange.query, matched.parameters);
      await handlers[matched.operation]({ ...matched, exchange, call, headers, query });
    },
    refuse: (exchange, error) => writeJson(exchange, error.status, errorBody(error.code, exchange.traceId)),
  };
}

function tenantHandlers({ usage, s3Credentials }: JsonOptions): Handlers<'quota.usage' | 's3.credentials'> {
  return {
    'quota.usage': async (admitted) => {
      noBody(admitted);
      answer(admitted, { ...(await usage(admitted.call.tenant)) });
    },
    's3.credentials': async (admitted) => {
      noBody(admitted);
      answer(admitted, s3Credentials(admitted.call.tenant));
    },
  };
}

async function tenantOf(
  request: IncomingMessage,
  operation: Operation,
  tenants: Tenants,
): Promise<Tenant | undefined> {
  const token =
    operation === 's3.credentials' ? bareOrBearer(request) : bearerToken(request.rawHeaders, 'osw');
  const tenant = await tenants.byDigest(token === undefined ? NOBODY : digestOf(token));
  return token === undefined ? undefined : tenant;
}

/** The AWS SDKs send only the content of the token's file, without a scheme. */
function bareOrBearer({ rawHeaders }: IncomingMessage): Secret<string> | undefined {
  const bearer = rawHeaders.map((text, i) =>
    i % 2 === 1 && rawHeaders[i - 1]?.toLowerCase() === 'authorization' && isToken(text.trim(), 'osw')
      ? `Bearer ${text.trim()}`
      : text,
  );
  return bearerToken(bearer, 'osw');
}
