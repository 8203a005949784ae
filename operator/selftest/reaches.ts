import { connect } from 'node:net';

/** Whether anything accepts a connection there within that time. */
export const reaches =
  (milliseconds: number) =>
  (address: string, port: number): Promise<boolean> =>
    new Promise((resolve) => {
      const socket = connect({ host: address, port });
      const end = (met: boolean) => {
        socket.destroy();
        resolve(met);
      };
      socket.setTimeout(milliseconds, () => end(false));
      socket.once('connect', () => end(true)).once('error', () => end(false));
    });
