import { LineBudget, type Logger } from '@space/broker-kit';
import type { BrokerMetrics } from '../metrics.ts';

/** Counts and logs that a session of a tenant was ended; the name of its database is that of its role. */
export type TellEnded = (database: string, reason: string, more?: Readonly<Record<string, unknown>>) => void;

/** One tenant can have hundreds of sessions ended in a second, since its clients connect again at once. */
const LINES = { burst: 20, perSecond: 1 };

export function createTellEnded(log: Logger, metrics: Pick<BrokerMetrics, 'sessionsEnded'>): TellEnded {
  const lines = new LineBudget(log, LINES);
  return (database, reason, more) => {
    metrics.sessionsEnded.labels(reason).inc();
    const who = { database, reason };
    if (lines.allows('warn', who, 'session ended')) log.warn({ ...who, ...more }, 'session ended');
  };
}
