import { z } from 'zod';

/** A variable of the environment that holds options as JSON, which the chart writes. */
export const jsonOption = <Schema extends z.ZodType>(options: Schema) =>
  z
    .string('must be set, as the chart does')
    .transform((text, context) => {
      try {
        return JSON.parse(text);
      } catch {
        context.addIssue({ code: 'custom', message: 'must be JSON' });
        return z.NEVER;
      }
    })
    .pipe(options);
