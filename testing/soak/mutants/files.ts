import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { type AutomaticMutant, automaticMutants } from './operators.ts';

export const ROOT = resolve(import.meta.dirname, '../../..');

const within = (folder: string, names: readonly string[]) => names.map((name) => `${folder}/${name}.ts`);

/** Files that decide about security and have unit tests. Others have hand-written mutants, or are changed by `npm run soak -- walls`. */
export const FILES: readonly string[] = [
  ...within('brokers/db', ['core/decide', 'core/names', 'core/quota', 'limits/sessions']),
  ...within('brokers/egress/core', [
    'client-hello',
    'needles',
    'route',
    'scrub',
    'search',
    'spans',
    'target',
  ]),
  ...within('brokers/egress', ['data/hello', 'data/scrubbers', 'policies/policies']),
  ...within('brokers/kit', ['connections-by-address', 'principals/decide', 'request-head', 'tokens']),
  ...within('brokers/kit/control', ['authorities', 'edge']),
  ...within('brokers/kit/custody', ['envelope', 'keyring']),
  ...within('brokers/kit/net', ['address', 'dial', 'guard']),
  ...within('brokers/objectstore', ['api/s3/signature', 'objects/object-key']),
  ...within('brokers/objectstore/byok', ['credentials/guarded', 'grants/store', 'grants/verify']),
  ...within('brokers/objectstore/byok/custody', ['anchor', 'changes']),
  ...within('console', ['gateway/calls', 'http/origin']),
  ...within('console/html', ['context', 'template', 'url', 'visible']),
  ...within('console/session', ['cookies', 'return-path', 'sealed', 'session']),
  ...within('manifests', ['driver/grant', 'parse/guard', 'parse/json']),
  ...within('manifests/egress', ['host', 'parameter', 'value']),
  ...within('operator', ['assistant/decide', 'egress/compile', 'grants/mint', 'grants/sign']),
  ...within('operator/assistant/inputs', ['decide', 'entered', 'judge']),
  ...within('operator/keys', ['decide', 'exchange']),
  ...within('operator/capsule', ['decide', 'guardrails', 'release']),
  ...within('operator/sandbox', [
    'gate',
    'network',
    'node',
    'probe',
    'prober',
    'proofs',
    'sightings',
    'watch',
  ]),
];

export const mutantsOfFile = (file: string): AutomaticMutant[] =>
  automaticMutants(file, readFileSync(join(ROOT, file), 'utf8'));
