import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ClientFixture, GREETING, runClient } from '../../../brokers/egress/testing/clients.ts';
import { fromNpm } from '../../installed/npm.ts';
import { fromPyPi } from '../../installed/python.ts';

/** One client and its call. */
interface Call {
  readonly command: readonly string[];
  readonly files?: Readonly<Record<string, string>>;
  readonly env?: Readonly<Record<string, string>>;
}

export interface Case {
  readonly client: string;
  /** What it needs in addition to the environment of a pod. */
  readonly setting: string;
  readonly needs: readonly string[];
  /** Whether it sends its first request without its credential. */
  readonly isAsked?: boolean;
  /** For a client that does not work without changes: the code with which its tunnel is refused. */
  readonly refused?: string;
  readonly prepare: (fixture: ClientFixture) => Promise<Call>;
}

const NPM = ['axios@1.21.1', 'ws@8.23.0', 'https-proxy-agent@7.0.6', '@grpc/grpc-js@1.14.7', 'openai@6.10.0'];

function python(client: string, requirement: string | undefined, script: (url: string) => string): Case {
  return {
    client,
    setting: '–',
    needs: ['python3'],
    prepare: async ({ url }) => ({
      command: ['python3', '-c', script(url)],
      env: requirement === undefined ? {} : { PYTHONPATH: await fromPyPi(requirement) },
    }),
  };
}

/** Runs a module that is placed beside the packages, from where Node resolves them. */
function npm(client: string, setting: string, script: (fixture: ClientFixture) => string): Case {
  return {
    client,
    setting,
    needs: ['npm'],
    prepare: async (fixture) => {
      const at = await fromNpm(...NPM);
      const load = `import { createRequire } from 'node:module';\nconst need = createRequire('${at}/');\n`;
      return { command: [process.execPath, 'client.mjs'], files: { 'client.mjs': load + script(fixture) } };
    },
  };
}

const java = (client: string, fetch: (url: string) => string): Case => ({
  client,
  setting:
    '`-Dhttps.proxyHost`, `-Dhttps.proxyPort`, `-Djdk.http.auth.tunneling.disabledSchemes=`, an `Authenticator`',
  needs: ['java', 'keytool'],
  isAsked: true,
  prepare: async ({ url, port, principal, authority, directory }) => ({
    command: [
      'sh',
      '-c',
      `rm -f trust.p12 && keytool -importcert -noprompt -alias ca -file ${authority} -keystore trust.p12 -storetype PKCS12 -storepass changeit >/dev/null 2>&1 && exec java -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=${port} -Djdk.http.auth.tunneling.disabledSchemes= -Djavax.net.ssl.trustStore=${directory}/trust.p12 -Djavax.net.ssl.trustStorePassword=changeit Client.java`,
    ],
    files: {
      'Client.java': `import java.net.*;
import java.net.http.*;
import java.nio.charset.StandardCharsets;
public class Client {
  public static void main(String[] args) throws Exception {
    Authenticator authenticator = new Authenticator() {
      protected PasswordAuthentication getPasswordAuthentication() {
        return new PasswordAuthentication("egr", "${principal}".toCharArray());
      }
    };
    Authenticator.setDefault(authenticator);
    ${fetch(url)}
  }
}
`,
    },
  }),
});

export const CASES: readonly Case[] = [
  java(
    'Java HttpClient',
    (url) =>
      `HttpClient client = HttpClient.newBuilder().proxy(ProxySelector.getDefault()).authenticator(authenticator).build();
    System.out.println(client.send(HttpRequest.newBuilder(URI.create("${url}/")).build(), HttpResponse.BodyHandlers.ofString()).body());`,
  ),
  java(
    'Java HttpURLConnection',
    (url) =>
      `System.out.println(new String(URI.create("${url}/").toURL().openStream().readAllBytes(), StandardCharsets.UTF_8));`,
  ),
  {
    client: 'Go net/http',
    setting: '–',
    needs: ['go'],
    prepare: async ({ url }) => ({
      command: ['go', 'run', 'client.go'],
      files: {
        'client.go': `package main

import (
	"io"
	"net/http"
	"os"
)

func main() {
	answer, err := http.Get("${url}")
	if err != nil {
		panic(err)
	}
	io.Copy(os.Stdout, answer.Body)
}
`,
      },
    }),
  },
  python(
    'Python urllib',
    undefined,
    (url) => `import urllib.request as u; print(u.urlopen('${url}').read().decode())`,
  ),
  python(
    'Python requests',
    'requests==2.34.2',
    (url) => `import requests; print(requests.get('${url}').text)`,
  ),
  python('Python httpx', 'httpx==0.28.1', (url) => `import httpx; print(httpx.get('${url}').text)`),
  python(
    'Python openai',
    'openai==3.54.0',
    (url) =>
      `import openai; print(openai.OpenAI(base_url='${url}/v1', api_key='k').chat.completions.create(model='m', messages=[{'role': 'user', 'content': 'hi'}]).choices[0].message.content)`,
  ),
  npm(
    'openai for Node',
    '–',
    ({ url }) => `const { OpenAI } = need('openai');
const client = new OpenAI({ baseURL: '${url}/v1', apiKey: 'k' });
const answer = await client.chat.completions.create({ model: 'm', messages: [{ role: 'user', content: 'hi' }] });
console.log(answer.choices[0].message.content);`,
  ),
  npm(
    'axios',
    '–',
    ({ url }) => `const axios = need('axios');
console.log((await axios.get('${url}')).data);`,
  ),
  npm(
    'ws',
    '`agent: new HttpsProxyAgent(process.env.HTTPS_PROXY)`',
    ({ url }) => `const { WebSocket } = need('ws');
const { HttpsProxyAgent } = need('https-proxy-agent');
const socket = new WebSocket('${url.replace('https', 'wss')}', { agent: new HttpsProxyAgent(process.env.HTTPS_PROXY) });
socket.on('message', (data) => { console.log(String(data)); socket.terminate(); });`,
  ),
  npm(
    'gRPC (grpc-js)',
    '–',
    ({ url }) => `const { Client, credentials } = need('@grpc/grpc-js');
const client = new Client('${new URL(url).host}:443', credentials.createSsl());
const text = { serialize: (value) => Buffer.from(value), deserialize: (bytes) => String(bytes) };
client.makeUnaryRequest('/test.Greeter/Greet', text.serialize, text.deserialize, 'hi', (error, answer) => {
  if (error) throw error;
  console.log(answer);
  client.close();
});`,
  ),
  {
    client: 'Chromium',
    setting:
      'does not work by itself: it sends an Encrypted ClientHello, which its policy `EncryptedClientHelloEnabled` turns off',
    needs: ['chromium'],
    isAsked: true,
    refused: 'ech_denied',
    prepare: async ({ url, port, principal }) => ({
      command: [process.execPath, 'browser.mjs'],
      files: {
        'browser.mjs': `import { createRequire } from 'node:module';
const { chromium } = createRequire('${import.meta.filename}')('playwright-core');
const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium',
  args: ['--no-sandbox'],
  proxy: { server: 'http://127.0.0.1:${port}', username: 'egr', password: '${principal}' },
});
const page = await browser.newPage({ ignoreHTTPSErrors: true });
try {
  await page.goto('${url}/');
  console.log(await page.content());
} catch (error) {
  console.log(String(error));
}
await browser.close();
`,
      },
    }),
  },
];

/** Runs one client; throws with its output if it got neither the host's answer nor the expected refusal. */
export async function runCase(fixture: ClientFixture, one: Case): Promise<void> {
  const { command, files = {}, env = {} } = await one.prepare(fixture);
  for (const [name, text] of Object.entries(files)) writeFileSync(join(fixture.directory, name), text);
  fixture.ended();
  const text = await runClient(fixture, command, { env });
  const codes = fixture.ended();
  if (text.includes(GREETING) !== (one.refused === undefined)) throw new Error(text);
  for (const code of [...(one.isAsked === true ? ['credential_required'] : []), one.refused])
    if (code !== undefined && !codes.includes(code)) throw new Error(`no tunnel ended with ${code}`);
}

/** The first program that the client needs and this machine does not have. */
export function missingProgram({ needs }: Case): string | undefined {
  return needs.find((program) => spawnSync('which', [program]).status !== 0);
}
