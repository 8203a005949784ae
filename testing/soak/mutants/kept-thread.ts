import {
  type PoolOptions,
  type PoolRunnerInitializer,
  type PoolWorker,
  ThreadsPoolWorker,
} from 'vitest/node';

type Listener = (...args: unknown[]) => void;

/**
 * Runs all tests in one thread, one run after another. vitest would start a thread for each run, and most of the time would be
 * spent loading code that the mutant does not change.
 */
export class KeptThread implements PoolRunnerInitializer {
  readonly name = 'kept';
  #thread: ThreadsPoolWorker | undefined;
  #isStarted = false;

  readonly createPoolWorker = (options: PoolOptions): PoolWorker => {
    this.#thread ??= new ThreadsPoolWorker(options);
    return this.#forOneRun(this.#thread);
  };

  /** Makes the next run start a new thread. */
  async end(): Promise<void> {
    const thread = this.#thread;
    this.#thread = undefined;
    this.#isStarted = false;
    await thread?.stop();
  }

  #forOneRun(thread: ThreadsPoolWorker): PoolWorker {
    const heard: [event: string, listener: Listener][] = [];
    const answer = (type: 'started' | 'stopped') =>
      queueMicrotask(() => {
        for (const [event, listener] of heard)
          if (event === 'message') listener({ type, __vitest_worker_response__: true });
      });
    return {
      name: this.name,
      on: (event, listener) => {
        heard.push([event, listener]);
        thread.on(event, listener);
      },
      off: (event, listener) => thread.off(event, listener),
      send: (message) => {
        if (message.type === 'stop') answer('stopped');
        else if (message.type === 'start' && this.#isStarted) answer('started');
        else thread.send(message);
        this.#isStarted ||= message.type === 'start';
      },
      deserialize: (data) => data,
      start: async () => {
        if (!this.#isStarted) await thread.start();
      },
      stop: async () => {
        for (const [event, listener] of heard) thread.off(event, listener);
      },
    };
  }
}
