import { parseManifest } from '@space/manifests';
import { describe, expect, it } from 'vitest';
import { bystandersOf } from './bystanders.ts';
import { holders, tracesOf } from './custody.ts';
import { canaryValue, INPUT, prober, storedInput } from './prober.ts';

const place = { space: 'home', namespace: 'people', run: 'v1' };

describe('the prober', () => {
  const { spec } = prober(place, 'verify-v1-a', 'image', ['tcp 10.0.0.1 80', 'udp 10.0.0.1 53']);

  it('has a valid manifest with a stored input', () => {
    const parsed = parseManifest(JSON.stringify(spec.manifest));
    expect(parsed).toMatchObject({ ok: true });
    expect(spec.storedInputs[INPUT]).toEqual({ secretKeyRef: { name: 'verify-v1-a', key: 'value' } });
  });

  it('gets its targets in few arguments, and its value in none', () => {
    expect(spec.command.slice(5)).toEqual(['tcp 10.0.0.1 80,udp 10.0.0.1 53']);
    const { stringData } = storedInput(place, 'verify-v1-a');
    expect(stringData.value).toBe(canaryValue(place, 'verify-v1-a'));
    expect(JSON.stringify(spec)).not.toContain(stringData.value);
    expect(canaryValue(place, 'verify-v1-b')).not.toBe(stringData.value);
  });
});

describe('a value', () => {
  const value = 'sk_verify_0123456789';
  const base64 = (text: string) => Buffer.from(text).toString('base64');
  const secret = (data: object) => ({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 's', namespace: 'home-system' },
    data,
  });

  it('is found as it is and encoded, in texts and in objects, once and twice', () => {
    expect(tracesOf(value, { env: `A=${value}`, file: base64(value), log: 'nothing' })).toEqual([
      'env',
      'file',
    ]);
    for (const data of [
      { v: base64(`x=${value}`) },
      { v: base64(base64(value)) },
      { v: base64(base64(`x${value}`)) },
    ])
      expect(holders(value, [secret(data)])).toEqual(['Secret home-system/s']);
    expect(holders(value, [secret({ v: base64('sealed') })])).toEqual([]);
  });
});

describe('bystanders', () => {
  const parties = (backup: boolean) => bystandersOf(place, { backup }, 'image').map(({ party }) => party);

  it('replace the pods of a backup if there is one, and the canary', () => {
    expect(parties(true)).toContain('backup');
    expect(parties(false)).not.toContain('backup');
    expect(parties(false)).toContain('canary');
  });

  it('are never ready, so that no Service sends connections to one that has the labels of a component', () => {
    for (const { pod } of bystandersOf(place, { backup: true }, 'image'))
      expect(pod.spec.readinessGates).toEqual([{ conditionType: 'platform.space/verify' }]);
  });
});
