import { newToken } from '@space/broker-kit';
import { credentialsOf, startOwnStore } from '../../brokers/objectstore/byok/credentials/testing/byok.ts';
import { newAssistant } from '../../brokers/objectstore/testing/assistant.ts';
import { type Fixture, openFixture } from '../../brokers/objectstore/testing/fixture.ts';
import { type Fuzzed, fuzz, fuzzReport, GENEROUS } from './fuzz/schemathesis.ts';
import type { SoakOptions, SoakReport } from './soak.ts';

type OwnStore = Awaited<ReturnType<typeof startOwnStore>>;

/**
 * Fuzzes both listeners of the object-storage broker, with each credential, with a wrong one and with none. Credential sets name
 * arbitrary endpoints, but the broker can connect only to this run's own store.
 */
export async function run({ examples }: SoakOptions): Promise<SoakReport> {
  const store = await startOwnStore();
  try {
    const fixture = await openFixture({
      environment: {
        ...store.environment,
        ...GENEROUS,
        OBJECT_REQUESTS_PER_SECOND: '1000000',
        OBJECT_REQUESTS_BURST: '1000000',
        BYOK_DENIED_BLOCKS: '0.0.0.0/0,::/0',
      },
    });
    try {
      return fuzzReport('The object-storage broker and its OpenAPI documents', [
        await fuzz({ ...(await controlOf(fixture, store)), examples }),
        await fuzz({ ...(await dataOf(fixture)), examples }),
      ]);
    } finally {
      await fixture.close();
    }
  } finally {
    await store.remove();
  }
}

async function controlOf({ broker, mounts }: Fixture, store: OwnStore): Promise<Fuzzed> {
  const capsule = await broker.capsule('fuzzed');
  const fields = store.fields();
  const { set_id } = (await credentialsOf(capsule, 'fuzzed').create('one', fields, 0)).json;
  return {
    document: 'objectstore',
    url: broker.url,
    credentials: {
      'the provisioner': mounts.provisioner,
      'a Capsule': capsule.token,
      'a wrong token': newToken('osp').reveal(),
      'a token of the data listener': newToken('osw').reveal(),
      'no token': undefined,
    },
    there: {
      capsule_id: ['fuzzed'],
      app_id: ['one', 'two'],
      set_id: [set_id],
      endpoint: [fields.endpoint],
      region: [fields.region],
      bucket: [fields.bucket],
      addressing: [fields.addressing],
      'access-key-id': [fields['access-key-id']],
      'secret-access-key': [fields['secret-access-key']],
    },
    log: broker.log,
  };
}

async function dataOf({ broker }: Fixture): Promise<Fuzzed> {
  const one = await newAssistant(broker);
  await one.put('there', 'x');
  const { upload_id } = (await one.post('/v1/uploads/data', { key: 'parts' })).json;
  return {
    document: 'objectstore-data',
    url: broker.dataUrl,
    credentials: {
      'an Assistant': one.token,
      'a token of the control listener': newToken('osp').reveal(),
      'no token': undefined,
    },
    except: {
      // A schema cannot express lengths in bytes, checksums, cursors, or which conditions hold.
      always: ['positive_data_acceptance'],
      // Other keys than these are valid as well.
      narrowed: ['negative_data_rejection'],
    },
    there: { key: ['there', 'other'], from: ['there'], upload_id: [upload_id] },
    log: broker.log,
  };
}
