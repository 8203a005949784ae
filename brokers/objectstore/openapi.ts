import { openApiDocument } from '@space/broker-kit/control';
import { dataDocument } from './api/json/openapi.ts';
import { CONTRACT } from './contract.ts';

/** For `scripts/generate.ts`. */
export function generated(): readonly { path: string; text: string }[] {
  const document = openApiDocument({
    contract: CONTRACT,
    title: 'Object-storage broker of a Space',
    summaries: {
      'capsule.provision': "Register a Capsule's principal and its quota",
      'capsule.finalize': 'Release the id of a dropped Capsule',
      'capsule.app.create': "Register a workload's principal, or exchange it",
      'capsule.app.drop': "Retire a workload's principal and delete its objects",
      'capsule.drop': "Delete all of the Capsule's objects and retire its principal",
      'capsule.usage': 'Tell what counts against the quota of the Capsule',
      'capsule.credential.list': "Tell the Capsule's credential sets, without a value",
      'capsule.credential.create': 'Verify a candidate and keep it as a new set',
      'capsule.credential.rotate': 'Verify new values and keep them in place of a set of the same bucket',
      'capsule.credential.select': 'Choose a set, or the Space-managed credential',
      'capsule.credential.delete': 'Delete a set that is not selected',
    },
    errors: {
      'capsule.provision': [409],
      'capsule.finalize': [404, 409],
      'capsule.app.create': [409],
      'capsule.app.drop': [404],
      'capsule.drop': [],
      'capsule.usage': [],
      'capsule.credential.list': [],
      'capsule.credential.create': [409, 422, 507],
      'capsule.credential.rotate': [404, 409, 422],
      'capsule.credential.select': [404, 409],
      'capsule.credential.delete': [404, 409],
    },
    meanings: {
      404: 'Nothing of that name was ever created.',
      422: 'The candidate failed the check that the error names; nothing was kept.',
      507: 'The Capsule has as many sets as it may have.',
      409: 'The state of the Capsule or workload does not allow it, or the principal was used before.',
    },
    documents: {
      '/v1/driver': { operation: 'driver', summary: 'The service contract of the image, byte for byte' },
      '/v1/driver/credentials': {
        operation: 'driver.credentials',
        summary: 'The credential form of the image, byte for byte',
      },
    },
    principalPrefix: 'spc_osp_',
  });
  return [
    { path: 'docs/wire/objectstore.openapi.generated.json', text: `${JSON.stringify(document, null, 2)}\n` },
    {
      path: 'docs/wire/objectstore-data.openapi.generated.json',
      text: `${JSON.stringify(dataDocument(), null, 2)}\n`,
    },
  ];
}
