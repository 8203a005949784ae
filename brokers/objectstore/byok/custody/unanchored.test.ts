import { closeAll, createLogger, type Resources } from '@space/broker-kit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readConfig } from '../../config.ts';
import { client } from '../../testing/broker.ts';
import { type Fixture, openFixture } from '../../testing/fixture.ts';
import { spawnBroker } from '../../testing/process.ts';
import { openManagedStore } from '../../upstream/managed.ts';
import { credentialsOf, type OwnStore, startOwnStore } from '../credentials/testing/byok.ts';
import { anchorOf } from './anchor.ts';
import { bucketAnchors } from './anchor-store.ts';
import { discard } from './discard.ts';
import { openCustody } from './open.ts';
import { backUp } from './testing/backup.ts';

/** What the explored protocol went wrong in at first, on real PostgreSQL and a real S3 server. */

const log = createLogger({ service: 'test', level: 'silent' });
const resources: Resources = { closers: [], files: [] };
let store: OwnStore;
let fixture: Fixture;
beforeAll(async () => {
  store = await startOwnStore();
  fixture = await openFixture({ environment: store.environment });
});
afterAll(async () => {
  await closeAll(resources);
  await fixture.close();
  await store.remove();
});

/** A Capsule whose rotation was committed by a broker that died before it anchored it. */
async function crashed(id: string) {
  const { token } = await fixture.broker.capsule(id);
  const own = credentialsOf(client(fixture.broker.url, token), id);
  const fields = store.fields();
  const { set_id } = (await own.create('one', fields, 0)).json;
  const restore = await backUp(fixture);
  const environment = { ...fixture.mounts.environment, ...store.environment };
  const doomed = await spawnBroker({ ...environment, FAILPOINT: 'custody:after-commit' });
  await expect(credentialsOf(client(doomed.url, token), id).rotate(set_id, fields, 1)).rejects.toThrow();
  await doomed.gone;
  return { own, restore };
}

describe('a change that a crash left unanchored', () => {
  it('is not answered before it is anchored, so that it cannot be undone unnoticed', async () => {
    const { own, restore } = await crashed('read');
    expect((await own.list()).json.inventory_generation).toBe(2);
    await restore();
    expect((await own.list()).json.error?.code).toBe('custody_rollback');
  });

  it('is anchored before it is discarded, so that its own late anchor is refused, whatever happens in between', async () => {
    const id = 'discarded';
    const config = readConfig({ ...fixture.mounts.environment, ...store.environment });
    const { s3, close } = await openManagedStore(config, log);
    resources.closers.push(close);
    const anchors = bucketAnchors(s3, 'test');
    const { own } = await crashed(id);
    const { connections, custody } = fixture.broker.context;
    const before = await anchors.read(id);
    const late = (await custody.exclusively(id, (locked) => locked.load())).stored;
    if (late === undefined) throw new Error('nothing is stored');

    const dying = await openCustody(
      {
        keyringPath: config.CUSTODY_KEYRING_FILE,
        connections,
        s3,
        space: 'test',
        log,
        onAlarm: () => {},
        failpoint: (name) => {
          if (name === 'custody:after-commit') throw new Error('killed');
        },
      },
      resources,
    );
    await expect(discard(dying.custody, id)).rejects.toThrow('killed');
    expect(await anchors.write(id, anchorOf(late), before?.etag)).toBeUndefined();
    expect((await own.list()).json).toMatchObject({ sets: [], inventory_generation: 3 });
  });
});
