import { connect } from 'node:net';

/** A program in a pod that calls a replica of the gateway. */
export interface Caller {
  readonly principal: string;
  /** Its address. */
  readonly from: string;
  /** The port of the replica. */
  readonly port: number;
}

/** How the gateway answers a CONNECT. */
export const codeOfConnect = (caller: Caller, host: string): Promise<string> =>
  codeOf(
    caller,
    `CONNECT ${host}:443 HTTP/1.1\r\nhost: ${host}\r\nproxy-authorization: Bearer ${caller.principal}\r\n\r\n`,
  );

/** How it answers a request with a stored input. */
export const codeOfUse = (caller: Caller, key: string): Promise<string> =>
  codeOf(
    caller,
    `GET /i/${key}/v1/rates HTTP/1.1\r\nhost: assistant-egress\r\nauthorization: Bearer ${caller.principal}\r\nconnection: close\r\n\r\n`,
  );

/** The code of its refusal, or else all that it says. */
function codeOf({ from, port }: Caller, head: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    const socket = connect({ port, host: '127.0.0.1', localAddress: from });
    socket.write(head);
    socket.setEncoding('latin1').on('data', (chunk) => {
      text += chunk;
    });
    socket
      .on('error', reject)
      .on('close', () => resolve(/platform-egress-error: (\w+)/.exec(text)?.[1] ?? text));
  });
}
