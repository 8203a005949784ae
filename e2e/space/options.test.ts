import { describe, expect, it } from 'vitest';
import { readOptions, UsageError } from './options.ts';

describe('the command line of up', () => {
  it('needs nothing', () => {
    expect(readOptions([])).toEqual({ help: false, examples: true, cluster: { name: 'space' } });
  });

  it('accepts a cluster of yours with its registry', () => {
    const args = [
      '--kubeconfig',
      '/etc/kube',
      '--image-registry',
      'registry.example.com/team',
      '--no-examples',
    ];
    expect(readOptions(args, 'mine')).toEqual({
      help: false,
      examples: false,
      cluster: { name: 'mine', kubeconfig: '/etc/kube', imageRegistry: 'registry.example.com/team' },
    });
  });

  it('accepts a number of nodes for a native cluster', () => {
    expect(readOptions(['--nodes', '3']).cluster).toEqual({ name: 'space', provider: 'native', nodes: 3 });
  });

  it.each([
    ['an option that is not known', ['--speed', '9'], /--speed/],
    ['a word too many', ['now'], /now/],
    ['an unknown provider', ['--provider', 'minikube'], /native, kind, kubeconfig/],
    ['a provider that needs a file', ['--provider', 'kubeconfig'], /needs --kubeconfig FILE/],
    [
      'two clusters at once',
      ['--provider', 'native', '--kubeconfig', 'f'],
      /use only one of the two options/,
    ],
    ['a port that is none', ['--api-port', '65536'], /from 1 to 65535/],
    ['no nodes', ['--nodes', '0'], /from 1 to 9/],
    ['too many nodes', ['--nodes', '10'], /from 1 to 9/],
    ['nodes for kind', ['--provider', 'kind', '--nodes', '3'], /only a native cluster/],
    ['nodes for a cluster of yours', ['--kubeconfig', 'f', '--nodes', '3'], /only a native cluster/],
    ['a name with a slash', ['--cluster', '../x'], /lowercase letter/],
  ])('refuses %s, and says why', (_, args, message) => {
    expect(() => readOptions(args)).toThrow(UsageError);
    expect(() => readOptions(args)).toThrow(message);
  });
});
