import { openApiDocument } from '@space/broker-kit/control';
import { SERVED } from './contract.ts';

/** For `scripts/generate.ts`. */
export function generated(): readonly { path: string; text: string }[] {
  const document = openApiDocument({
    contract: SERVED,
    title: 'Database broker of a Space',
    summaries: {
      'capsule.provision': "Register a Capsule's principal and make the Capsule's own database",
      'capsule.finalize': 'Release the id of a dropped Capsule',
      'capsule.app.create': 'Make or find the database of one workload',
      'capsule.app.drop': "Drop one workload's database and role",
      'capsule.drop': 'Drop all databases of the Capsule and retire its principal',
      'capsule.limits':
        "Limit a Capsule's databases, and tell what they hold; beside the interface's operations",
    },
    errors: {
      'capsule.provision': [409],
      'capsule.finalize': [404, 409],
      'capsule.app.create': [409, 507],
      'capsule.app.drop': [404],
      'capsule.drop': [],
      'capsule.limits': [404, 409, 507],
    },
    meanings: {
      404: 'Nothing of that name was ever created.',
      409: 'The state of the Capsule or database does not allow it.',
      507: 'The Capsule holds more than it may, or the server has no connections left to promise.',
    },
    documents: {
      '/v1/driver': { operation: 'driver', summary: 'The driver document of the image, byte for byte' },
    },
    principalPrefix: 'spc_dbp_',
  });
  return [
    { path: 'docs/wire/db-broker.openapi.generated.json', text: `${JSON.stringify(document, null, 2)}\n` },
  ];
}
