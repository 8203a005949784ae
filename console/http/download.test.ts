import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { createLogger, portOf } from '@space/broker-kit';
import type { Response } from 'express';
import { expect, it } from 'vitest';
import { sendDownload } from './download.ts';
import { Download } from './outcome.ts';

it('a download whose reader stops reading is ended in time, and frees its slot', async () => {
  let ended = 0;
  let isOver = false;
  async function* endless() {
    try {
      for (;;) yield randomBytes(64 * 1024);
    } finally {
      isOver = true;
    }
  }
  const log = createLogger({ service: 'console', level: 'silent' });
  const done = Promise.withResolvers<void>();
  const server = createServer((_request, response) => {
    const download = new Download('a.tar.gz', endless(), () => {
      ended += 1;
    });
    const answer = Object.assign(response, {
      status: () => answer,
      set: () => answer,
    }) as unknown as Response;
    sendDownload(answer, download, log, 500).then(done.resolve, done.reject);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const socket = connect(portOf(server), '127.0.0.1');
  await once(socket, 'connect');
  socket.pause().write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  await done.promise;
  expect([ended, isOver]).toEqual([1, true]);
  socket.destroy();
  server.close();
}, 60_000);
