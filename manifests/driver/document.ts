import * as z from 'zod';
import { operations } from './operations.ts';

/**
 * The database broker's driver document: what it offers, served word for word at `/v1/driver`. Closed everywhere, so
 * a document that is malformed, incomplete or Capsule-scoped is none, and the service that carries it does not start.
 */
export const driverDocument = z.strictObject({
  spec: z.literal(1),
  service: z.literal('postgres'),
  scope: z.literal('space'),
  operations,
});
