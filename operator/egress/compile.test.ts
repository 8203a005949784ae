import { checkManifest, type Manifest } from '@space/manifests';
import { describe, expect, it } from 'vitest';
import { manifest } from '../testing/manifest.ts';
import { compileEgress } from './compile.ts';

const INPUT = {
  kind: 'password',
  label: 'Key',
  description: 'A key.',
  help_url: 'https://help.bank.org/keys',
  host: 'api.bank.org',
  routes: [{ method: 'GET', path: '/v1/rates' }],
  header: 'Authorization',
  scheme: 'Bearer',
};

function compiled(hosts: readonly string[], inputs: Readonly<Record<string, object>> = {}) {
  const check = checkManifest(
    manifest('egress', { network: { allowed_hosts: hosts }, stored_inputs: inputs }),
  );
  if (!check.ok) throw new Error('the interface allows this manifest');
  return compileEgress(check.manifest as Manifest);
}

describe('a manifest for the gateway', () => {
  it('that asks for nothing needs no policy', () => {
    expect(compiled([]).finding).toMatchObject({ status: 'True', reason: 'NotNeeded' });
  });

  it('is enforced completely if all its entries can be', () => {
    const { policy, finding } = compiled(['rates.ecb.org', 'api.bank.org', 'xn--bcher-kva.ch'], {
      bank: INPUT,
    });
    expect(finding).toMatchObject({ status: 'True', reason: 'Ready' });
    expect(policy.allowedHosts).toEqual(['api.bank.org', 'rates.ecb.org', 'xn--bcher-kva.ch']);
    expect(policy.inputs).toEqual({
      bank: { host: 'api.bank.org', routes: INPUT.routes, header: 'Authorization', scheme: 'Bearer' },
    });
  });

  it.each([
    ['1.2.3.4', 'is an address, not a name'],
    ['127.1', 'is an address, not a name'],
    ['2130706433', 'is an address, not a name'],
    ['api.bank.0x7f', 'is an address, not a name'],
    ['[::1]', 'is an address, not a name'],
    ['fd00::1', 'is an address, not a name'],
    ['*.bank.org', 'has a wildcard'],
    ['api.bank.org:443', 'names a port; only 443 is reached'],
    ['api.bank.org.', 'ends with a dot'],
    ['API.bank.org', 'is not in lower case'],
    ['postgres', 'has a single label'],
    ['localhost', 'has a single label'],
    ['db-broker.home-services.svc.cluster.local', 'ends with .local, which no public host does'],
    ['metadata.google.internal', 'ends with .internal, which no public host does'],
    ['-api.bank.org', 'is not a name of letters, digits and hyphens'],
    ['api..bank.org', 'is not a name of letters, digits and hyphens'],
    ['b\u00fccher.ch', 'is not a name of letters, digits and hyphens'],
    ['api.bank.org\u0000.evil.org', 'is not a name of letters, digits and hyphens'],
    ['https://api.bank.org', 'is more than a name'],
    ['user@api.bank.org', 'is more than a name'],
  ])('allows nothing for the host %j, which %s', (host, fault) => {
    const { policy, finding } = compiled(['rates.ecb.org', host]);
    expect(finding).toMatchObject({ status: 'False', reason: 'HostNotEnforceable' });
    expect(finding.message).toContain(fault);
    expect(policy.allowedHosts).toEqual(['rates.ecb.org']);
  });

  it.each([
    ['a forbidden header', { header: 'Host', scheme: undefined }, 'ForbiddenSlot'],
    ['a forbidden header in other letters', { header: 'proxy-Authorization' }, 'ForbiddenSlot'],
    ['a cookie', { header: 'Cookie' }, 'ForbiddenSlot'],
    ['a framing header', { header: 'Transfer-Encoding' }, 'ForbiddenSlot'],
    ['an unknown profile', { hmac: 'sha1' }, 'UnknownHmacProfile'],
    ['an address', { host: '10.0.0.1' }, 'HostNotEnforceable'],
    [
      'a parameter by which its route is chosen',
      {
        header: undefined,
        scheme: undefined,
        query: 'api.key',
        routes: [{ method: 'GET', path: '/v1', query: [{ name: 'API_KEY', values: ['x'] }] }],
      },
      'ForbiddenSlot',
    ],
  ])('refuses a stored input with %s', (_, changes, reason) => {
    const input = JSON.parse(JSON.stringify({ ...INPUT, ...changes }));
    const { policy, finding } = compiled([], { bank: input, other: INPUT });
    expect(finding).toMatchObject({ status: 'False', reason });
    expect(Object.keys(policy.inputs)).toEqual(['other']);
  });

  it.each(['sha256-body', 'sha256-body-base64', 'sha256-request-v1'])('knows the profile %s', (hmac) => {
    expect(compiled([], { bank: { ...INPUT, hmac } }).finding.status).toBe('True');
  });

  it('that asks for as many hosts as values needs the gateway', () => {
    expect(compiled(['a.org'], { bank: INPUT }).finding.reason).toBe('Ready');
    expect(compiled([], { bank: INPUT }).finding.reason).toBe('Ready');
  });

  it('is refused with its first fault, the number of further ones, and the host in few plain characters', () => {
    const told = (...hosts: string[]) => compiled(hosts).finding.message;
    const rest = ' What cannot be enforced exactly is not allowed, and';
    expect(told('A.org')).toContain(`network.allowed_hosts[0], "A.org", is not in lower case.${rest}`);
    expect(told('A.org', 'a.org', 'B.org')).toContain(`is not in lower case. 1 more like it.${rest}`);
    expect(told('A.org', 'B.org', 'C.org')).toContain(` 2 more like it.${rest}`);
    const exact = `${'a'.repeat(79)}.`;
    expect(told(exact)).toContain(`"${exact}"`);
    expect(told(`a${exact}`)).toContain(`"${'a'.repeat(79)}…"`);
    expect(told('b\u00fccher.ch')).toContain('"b\\u{fc}cher.ch"');
  });
});
