import type { Duplex } from 'node:stream';
import { readClientHello } from '../core/client-hello.ts';
import type { TunnelFault } from '../core/problem.ts';

type HelloRead = { readonly bytes: Buffer } | { readonly fault: TunnelFault };

/** Collects the first bytes until they are a ClientHello for the host, for at most `timeoutMs`. */
export function readHello(client: Duplex, head: Buffer, host: string, timeoutMs: number): Promise<HelloRead> {
  return new Promise((resolve) => {
    let bytes: Buffer = Buffer.from(head);
    const settle = (result: HelloRead) => {
      clearTimeout(timer);
      client.off('data', onData).off('end', onEnd).off('close', onEnd);
      client.pause();
      resolve(result);
    };
    const look = () => {
      const hello = readClientHello(bytes);
      // A message that claims to be too large is a fault and not `more`, so that it is not waited for.
      if (hello === 'more') return;
      if ('fault' in hello) settle(hello);
      else settle(hello.sni === host ? { bytes } : { fault: 'sni_mismatch' });
    };
    const onData = (chunk: Buffer) => {
      bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk]);
      look();
    };
    const onEnd = () => settle({ fault: 'not_tls' });
    const timer = setTimeout(() => settle({ fault: 'hello_timeout' }), timeoutMs);
    client.on('data', onData).on('end', onEnd).on('close', onEnd);
    look();
  });
}
