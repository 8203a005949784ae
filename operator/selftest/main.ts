/** `node test.mjs`: what `helm test` runs. Says what holds of the Space that `SPACE_TEST` names, and ends with 1 when not all does. */
import { KubeConfig } from '@kubernetes/client-node';
import { apiClient } from '../runtime/client.ts';
import { connect } from '../runtime/connection.ts';
import { checksOf } from './checks.ts';
import { look } from './look.ts';
import { schema } from './options.ts';
import { reaches } from './reaches.ts';

/** An open path answers at once; without an answer for this long, it counts as closed. */
const SILENT_MS = 3_000;

const { SPACE_TEST: options } = schema.parse(process.env);
const kubeConfig = new KubeConfig();
kubeConfig.loadFromDefault();
const connection = connect(kubeConfig);
const client = apiClient(connection);

try {
  const checks = await look(
    (signal) => checksOf({ client, options, reaches: reaches(SILENT_MS) }, signal),
    options,
  );
  for (const { name, faults, found } of checks)
    console.log(
      faults.length === 0 ? `ok      ${name}: ${found}` : `FAILED  ${name}: ${faults.join('\n        ')}`,
    );
  const failed = checks.some(({ faults }) => faults.length > 0);
  console.log(
    failed
      ? 'some checks failed'
      : 'all checks passed. `npm run verify` of the sources also tests the network policies from inside every pod (docs/verify.md).',
  );
  process.exitCode = failed ? 1 : 0;
} catch (error) {
  console.log(
    `FAILED  the API server did not answer what was asked: ${error instanceof Error ? error.message : error}`,
  );
  process.exitCode = 1;
} finally {
  await connection.close();
}
