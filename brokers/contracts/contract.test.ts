import { describe, expect, it } from 'vitest';
import type { Contract } from './contract.ts';
import { DATABASE } from './database.ts';
import { OBJECT_STORE } from './objectstore.ts';

/** The routes are written out here a second time, from the interface: a route that is added must be added in two places. */
const routesOf = ({ documents, operations }: Contract) => [
  ...Object.keys(documents).map((path) => `GET ${path} none`),
  ...Object.entries(operations).map(([name, { path, authority }]) => `POST ${path} ${authority} ${name}`),
];

describe('the control listener of a broker', () => {
  it('of databases serves the interface’s five operations, a Capsule’s limits, an Assistant’s size, and nothing else', () => {
    expect(routesOf(DATABASE)).toEqual([
      'GET /v1/driver none',
      'POST /v1/capsules/provision provisioner capsule.provision',
      'POST /v1/capsules/finalize provisioner capsule.finalize',
      'POST /v1/capsules/apps/create capsule capsule.app.create',
      'POST /v1/capsules/apps/drop capsule capsule.app.drop',
      'POST /v1/capsules/drop capsule capsule.drop',
      'POST /v1/capsules/limits provisioner capsule.limits',
      'POST /v1/capsules/apps/usage capsule capsule.app.usage',
    ]);
  });

  it('of objects serves the same operations on a Capsule, its usage and an Assistant’s, the five credential operations, and nothing else', () => {
    expect(routesOf(OBJECT_STORE)).toEqual([
      'GET /v1/driver none',
      'GET /v1/driver/credentials none',
      'POST /v1/capsules/provision provisioner capsule.provision',
      'POST /v1/capsules/finalize provisioner capsule.finalize',
      'POST /v1/capsules/apps/create capsule capsule.app.create',
      'POST /v1/capsules/apps/drop capsule capsule.app.drop',
      'POST /v1/capsules/drop capsule capsule.drop',
      'POST /v1/capsules/usage capsule capsule.usage',
      'POST /v1/capsules/apps/usage capsule capsule.app.usage',
      'POST /v1/capsules/credentials/list capsule capsule.credential.list',
      'POST /v1/capsules/credentials/create capsule capsule.credential.create',
      'POST /v1/capsules/credentials/rotate capsule capsule.credential.rotate',
      'POST /v1/capsules/credentials/select capsule capsule.credential.select',
      'POST /v1/capsules/credentials/delete capsule capsule.credential.delete',
    ]);
  });
});
