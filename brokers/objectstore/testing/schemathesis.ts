/**
 * `npm run fuzz:objectstore [-- --examples N]`: both listeners of the object-storage broker, with each credential, with
 * a wrong one and with none. Candidates name whatever comes to its mind, and nothing but our own store is dialled.
 */
import { resolve } from 'node:path';
import { newToken } from '@space/broker-kit';
import { fuzz, GENEROUS } from '../../kit/testing/schemathesis.ts';
import { credentialsOf, startOwnStore } from '../byok/credentials/testing/byok.ts';
import { newAssistant } from './assistant.ts';
import { setStage } from './stage.ts';

const store = await startOwnStore();
const stage = await setStage({
  environment: {
    ...store.environment,
    ...GENEROUS,
    OBJECT_REQUESTS_PER_SECOND: '1000000',
    OBJECT_REQUESTS_BURST: '1000000',
    BYOK_DENIED_BLOCKS: '0.0.0.0/0,::/0',
  },
});
let good = false;
try {
  const capsule = await stage.broker.capsule('fuzzed');
  const fields = store.fields();
  const { set_id } = (await credentialsOf(capsule, 'fuzzed').create('one', fields, 0)).json;
  good = await fuzz({
    document: resolve(import.meta.dirname, '../../../docs/wire/objectstore.openapi.generated.json'),
    url: stage.broker.url,
    credentials: {
      'the provisioner': stage.mounts.provisioner,
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
    log: stage.broker.log,
  });
  good = (await fuzzObjects()) && good;
} finally {
  await stage.close();
  await store.remove();
}
async function fuzzObjects(): Promise<boolean> {
  const one = await newAssistant(stage.broker);
  await one.put('there', 'x');
  const { upload_id } = (await one.post('/v1/uploads/data', { key: 'parts' })).json;
  return fuzz({
    document: resolve(import.meta.dirname, '../../../docs/wire/objectstore-data.openapi.generated.json'),
    url: stage.broker.dataUrl,
    credentials: {
      'an Assistant': one.token,
      'a token of the control listener': newToken('osp').reveal(),
      'no token': undefined,
    },
    except: {
      // No schema says bytes of UTF-8, checksums, cursors, or which conditions hold.
      always: ['positive_data_acceptance'],
      // Other keys than these are as good.
      narrowed: ['negative_data_rejection'],
    },
    there: { key: ['there', 'other'], from: ['there'], upload_id: [upload_id] },
    log: stage.broker.log,
  });
}

process.exitCode = good ? 0 : 1;
