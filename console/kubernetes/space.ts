import type { Visit } from '../visit.ts';
import { apiPath } from './client.ts';
import { listTable, type Row } from './tables.ts';

type From = Pick<Visit, 'ask' | 'names'>;

const root = (namespace: string) => apiPath`/apis/platform.space/v1/namespaces/${namespace}`;

export const listCapsules = ({ ask, names }: From): Promise<readonly Row[]> =>
  listTable(ask, `${root(names.namespace)}/capsules`);

export const listAssistants = ({ ask, names }: From): Promise<readonly Row[]> =>
  listTable(ask, `${root(names.namespace)}/assistants`);
