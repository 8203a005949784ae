import * as z from 'zod';
import type { Contract } from './contract.ts';
import { id, traceId } from './fields.ts';

/** The wire of the database broker. */

const principalToken = z.string().regex(/^spc_dbp_[A-Za-z0-9_-]{43}$/);
const databaseName = z.string().regex(/^[a-z0-9_]{1,63}$/);
const issued = z.strictObject({ database_url: z.string(), created: z.boolean(), trace_id: traceId });

export const DATABASE = {
  title: 'Database broker of a Space',
  audiences: { provisioner: 'prv', capsule: 'dbp' },
  documents: {
    '/v1/driver': { operation: 'driver', summary: 'The driver document of the image, byte for byte' },
  },
  operations: {
    'capsule.provision': {
      path: '/v1/capsules/provision',
      authority: 'provisioner',
      summary: "Register a Capsule's principal and make the Capsule's own database",
      request: z.strictObject({ capsule_id: id, principal_token: principalToken }),
      response: issued,
      errors: ['conflict', 'quota_exceeded'],
    },
    'capsule.finalize': {
      path: '/v1/capsules/finalize',
      authority: 'provisioner',
      summary: 'Release the id of a dropped Capsule',
      request: z.strictObject({ capsule_id: id }),
      response: z.strictObject({ finalized: z.literal(true), trace_id: traceId }),
      errors: ['not_found', 'conflict'],
    },
    'capsule.app.create': {
      path: '/v1/capsules/apps/create',
      authority: 'capsule',
      summary: 'Make or find the database of one workload',
      request: z.strictObject({ capsule_id: id, app_id: id }),
      response: issued,
      errors: ['conflict', 'quota_exceeded'],
    },
    'capsule.app.drop': {
      path: '/v1/capsules/apps/drop',
      authority: 'capsule',
      summary: "Drop one workload's database and role",
      request: z.strictObject({ capsule_id: id, app_id: id }),
      response: z.strictObject({
        dropped: databaseName,
        already_absent: z.literal(true).optional(),
        trace_id: traceId,
      }),
      errors: ['not_found'],
    },
    'capsule.drop': {
      path: '/v1/capsules/drop',
      authority: 'capsule',
      summary: 'Drop all databases of the Capsule and retire its principal',
      request: z.strictObject({ capsule_id: id }),
      response: z.strictObject({ dropped: z.array(databaseName), trace_id: traceId }),
      errors: [],
    },
    'capsule.limits': {
      path: '/v1/capsules/limits',
      authority: 'provisioner',
      summary: "Limit a Capsule's databases, and tell what they hold; beside the interface's operations",
      request: z.strictObject({
        capsule_id: id,
        database_bytes: z.int().min(1).optional(),
        connections: z.int().min(1).max(1_000).optional(),
      }),
      response: z.strictObject({
        database_bytes: z.int(),
        connections: z.int(),
        used_bytes: z.int(),
        standing: z.enum(['ok', 'near', 'full', 'closed']),
        trace_id: traceId,
      }),
      errors: ['not_found', 'conflict', 'quota_exceeded'],
      unlisted: true,
    },
    'capsule.app.usage': {
      path: '/v1/capsules/apps/usage',
      authority: 'capsule',
      summary: "Tell what one workload's database takes of the disk; beside the interface's operations",
      request: z.strictObject({ capsule_id: id, app_id: id }),
      response: z.strictObject({ used_bytes: z.int(), trace_id: traceId }),
      errors: ['not_found'],
      unlisted: true,
    },
  },
  meanings: {
    404: 'Nothing of that name was ever created.',
    409: 'The state of the Capsule or database does not allow it.',
    507: 'The Capsule holds more than it may, or the server has no connections left to promise.',
  },
  longest: { request: 16 * 1024, answer: 64 * 1024 },
} as const satisfies Contract;
