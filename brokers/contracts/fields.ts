import { isId } from '@space/manifests';
import * as z from 'zod';
import { capsuleName } from '../../manifests/rules/capsule.ts';

/** Fields that several wires have. */

/** `capsule_id` and `app_id` have the shape of a manifest's id. */
export const id = z
  .string()
  .max(40)
  .refine(isId, 'not an id')
  .meta({
    minLength: capsuleName.min,
    pattern: (capsuleName.checks ?? []).map(({ pattern }) => pattern).join(''),
    not: { enum: capsuleName.except },
  });

export const traceId = z.string().regex(/^[0-9a-f]{32}$/);
