import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { Pool } from 'undici';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { portOf } from './metrics.ts';
import { unlessAborted } from './unless-aborted.ts';

describe('work', () => {
  it('brings its outcome, and its failure, where nobody aborts', async () => {
    const { signal } = new AbortController();
    await expect(unlessAborted(Promise.resolve(1), signal)).resolves.toBe(1);
    await expect(unlessAborted(Promise.reject(new Error('away')), signal)).rejects.toThrow('away');
  });

  it('is not waited for any longer when the signal is aborted, and what it brings later is let go', async () => {
    const aborting = new AbortController();
    const { promise, resolve } = Promise.withResolvers<string>();
    const late = vi.fn();
    const outcome = unlessAborted(promise, aborting.signal, late);
    aborting.abort(new Error('too late'));
    await expect(outcome).rejects.toThrow('too late');
    expect(late).not.toHaveBeenCalled();
    resolve('answer');
    await vi.waitFor(() => expect(late).toHaveBeenCalledExactlyOnceWith('answer'));
  });

  it('is not waited for at all behind a signal that was aborted before, and may fail without a word', async () => {
    const signal = AbortSignal.abort(new Error('gone'));
    await expect(unlessAborted(Promise.reject(new Error('away')), signal)).rejects.toThrow('gone');
    await expect(unlessAborted(new Promise(() => undefined), signal)).rejects.toThrow('gone');
  });

  it('leaves no listener behind', async () => {
    const { signal } = new AbortController();
    const [add, remove] = [vi.spyOn(signal, 'addEventListener'), vi.spyOn(signal, 'removeEventListener')];
    await unlessAborted(Promise.resolve(), signal);
    await vi.waitFor(() => expect(remove.mock.calls.length).toBe(add.mock.calls.length));
  });
});

describe('a request that waits in the queue of an HTTP client', () => {
  let server: Server;
  let pool: Pool;
  const held: ServerResponse[] = [];
  beforeAll(async () => {
    server = createServer((_, response) => void held.push(response)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    pool = new Pool(`http://127.0.0.1:${portOf(server)}`, { connections: 1, pipelining: 1 });
  });
  afterAll(async () => {
    await pool.destroy();
    server.closeAllConnections();
    server.close();
  });

  it('ends with its deadline, though the one before it has the connection', async () => {
    const first = pool.request({ path: '/', method: 'GET' });
    await vi.waitFor(() => expect(held).toHaveLength(1), 60_000);
    const aborting = new AbortController();
    const { signal } = aborting;
    const queued = unlessAborted(pool.request({ path: '/', method: 'GET', signal }), signal, ({ body }) =>
      body.destroy(),
    );
    aborting.abort(new Error('deadline'));
    await expect(queued).rejects.toThrow('deadline');
    held[0]?.end('done');
    expect(await (await first).body.text()).toBe('done');
  });
});
