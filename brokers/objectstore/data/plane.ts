import type { IncomingMessage, ServerResponse } from 'node:http';
import { errorBody, type Logger, type ServiceMetrics, STATUS, sendJson, traceIdOf } from '@space/broker-kit';
import type { AuthenticateWorkload } from '../principals/authenticate.ts';

/** What the object routes work with. */
export interface DataPlaneParts {
  readonly authenticateWorkload: AuthenticateWorkload;
  readonly log: Logger;
  readonly metrics: ServiceMetrics;
}

/** The data listener's handler: a bare one, since bodies are streamed and the small requests are many. */
export interface DataPlane {
  readonly listener: (request: IncomingMessage, response: ServerResponse) => void;
  /** From now on every answer closes its connection. */
  drain(): void;
}

/** No object route exists yet: every path is unknown. */
export function createDataPlane(_parts: DataPlaneParts): DataPlane {
  return {
    listener: (_request, response) => {
      sendJson(response, STATUS.not_found, errorBody('not_found', traceIdOf(undefined)));
    },
    drain: () => undefined,
  };
}
