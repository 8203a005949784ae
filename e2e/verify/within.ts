/** Programs that run inside an Assistant, with nothing but Node. Each prints one word. */

/**
 * Logs in to PostgreSQL with the Assistant's own credential: `ready`, or the code of the refusal. Argument: another
 * database.
 */
export const DATABASE = String.raw`
const { connect } = require('node:net');
const tls = require('node:tls');
const { createHash, createHmac, pbkdf2Sync, randomBytes } = require('node:crypto');
const url = new URL(process.env.DATABASE_URL);
const [user, password] = [url.username, url.password].map(decodeURIComponent);
const database = process.argv[1] || url.pathname.slice(1);
const say = (word) => { console.log(word); process.exit() };
setTimeout(say, 20000, 'silence').unref();
const number = (n) => { const b = Buffer.alloc(4); b.writeInt32BE(n); return b };
const frame = (type, body) => Buffer.concat([Buffer.from(type), number(body.length + 4), body]);
const text = (...words) => Buffer.from(words.join('\0') + '\0');
const hmac = (key, of) => createHmac('sha256', key).update(of).digest();
const raw = connect(url.port || 5432, url.hostname, () => raw.write(Buffer.concat([number(8), number(80877103)])));
raw.on('error', (error) => say(error.code));
raw.once('data', (answer) => {
  const socket = answer[0] === 83 ? tls.connect({ socket: raw, rejectUnauthorized: false }) : raw;
  const start = () => {
    const body = Buffer.concat([number(196608), text('user', user, 'database', database, '')]);
    socket.write(Buffer.concat([number(body.length + 4), body]));
  };
  socket.on('error', (error) => say(error.code));
  socket === raw ? start() : socket.once('secureConnect', start);
  const nonce = randomBytes(18).toString('base64');
  const first = 'n=,r=' + nonce;
  let got = Buffer.alloc(0);
  socket.on('data', (chunk) => {
    got = Buffer.concat([got, chunk]);
    while (got.length > 4 && got.length > got.readInt32BE(1)) {
      const type = String.fromCharCode(got[0]);
      const body = got.subarray(5, got.readInt32BE(1) + 1);
      got = got.subarray(got.readInt32BE(1) + 1);
      if (type === 'E') say(/\0C(\w{5})\0/.exec(body.toString())?.[1] ?? 'refused');
      if (type === 'Z') say('ready');
      if (type !== 'R') continue;
      const step = body.readInt32BE(0);
      if (step === 10) {
        const message = Buffer.from('n,,' + first);
        socket.write(frame('p', Buffer.concat([text('SCRAM-SHA-256'), number(message.length), message])));
      } else if (step === 11) {
        const served = body.subarray(4).toString();
        const { r, s, i } = Object.fromEntries(served.split(',').map((part) => [part[0], part.slice(2)]));
        const salted = pbkdf2Sync(password, Buffer.from(s, 'base64'), Number(i), 32, 'sha256');
        const client = hmac(salted, 'Client Key');
        const last = 'c=biws,r=' + r;
        const signed = hmac(createHash('sha256').update(client).digest(), [first, served, last].join());
        const proof = client.map((byte, at) => byte ^ signed[at]);
        socket.write(frame('p', Buffer.from(last + ',p=' + Buffer.from(proof).toString('base64'))));
      } else if (step !== 0 && step !== 12) say('method ' + step);
    }
  });
  socket.on('close', () => say('closed'));
});
`;

/** Sends one request for an object, with the Assistant's own token or another: the status. */
export const OBJECT = `
const { readFileSync } = require('node:fs');
const [method, path, body, token = readFileSync(process.env.OBJECT_STORE_TOKEN_FILE, 'utf8').trim()] = process.argv.slice(1);
const grant = process.env.OBJECT_STORE_GRANT_FILE;
const headers = {
  authorization: 'Bearer ' + token,
  ...(grant ? { 'platform-grant': readFileSync(grant, 'utf8').trim() } : {}),
};
fetch(process.env.OBJECT_STORE_URL + path, { method, headers, ...(body ? { body } : {}), signal: AbortSignal.timeout(20000) })
  .then(({ status }) => console.log(status), (error) => console.log(String(error.cause?.code ?? error.name)));
`;

/** Asks the gateway for a tunnel to a host, with the Assistant's own credential or none: the status. */
export const CONNECT = String.raw`
const { connect } = require('node:net');
const [host, whose] = process.argv.slice(1);
const proxy = new URL(process.env.HTTPS_PROXY);
const say = (word) => { console.log(word); process.exit() };
setTimeout(say, 20000, 'silence').unref();
const mine = Buffer.from(proxy.username + ':' + decodeURIComponent(proxy.password)).toString('base64');
const credential = whose === 'own' ? 'proxy-authorization: Basic ' + mine + '\r\n' : '';
const socket = connect(proxy.port || 80, proxy.hostname, () =>
  socket.write('CONNECT ' + host + ':443 HTTP/1.1\r\nhost: ' + host + ':443\r\n' + credential + '\r\n'));
socket.on('error', (error) => say(error.code));
socket.once('data', (answer) => say(/^HTTP\/1\.1 (\d+)/.exec(answer.toString())?.[1] ?? 'no status'));
socket.on('close', () => say('closed'));
`;

/**
 * Uses a stored input: key, path, and `own`, `none` or another principal. Prints why the gateway refused, or the
 * status.
 */
export const USE_INPUT = `
const [key, path, whose] = process.argv.slice(1);
const token = whose === 'own' ? process.env.EGRESS_TOKEN : whose;
const headers = whose === 'none' ? {} : { authorization: 'Bearer ' + token };
fetch(process.env['INPUT_' + key.toUpperCase() + '_URL'] + path, { headers, signal: AbortSignal.timeout(20000) })
  .then((answer) => console.log(answer.headers.get('platform-egress-error') ?? answer.status), (error) => console.log(String(error.cause?.code ?? error.name)));
`;
