import type { Clock } from '../runtime/clock.ts';

/** Time that passes when a test says so. */
export interface FakeClock extends Clock {
  advance(ms: number): void;
}

export function fakeClock(): FakeClock {
  let now = 0;
  const timers: { at: number; callback: () => void }[] = [];
  return {
    now: () => now,
    random: () => 0.5,
    after(ms, callback) {
      const timer = { at: now + ms, callback };
      timers.push(timer);
      return () => {
        const index = timers.indexOf(timer);
        if (index >= 0) timers.splice(index, 1);
      };
    },
    advance(ms) {
      const until = now + ms;
      for (;;) {
        const due = timers.filter(({ at }) => at <= until).sort((a, b) => a.at - b.at)[0];
        if (!due) break;
        now = Math.max(now, due.at);
        timers.splice(timers.indexOf(due), 1);
        due.callback();
      }
      now = until;
    },
  };
}
