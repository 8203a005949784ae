import { expect, test } from 'vitest';
import { NODE_IMAGE } from './configuration.ts';
import { type EngineFacts, gatherFacts, imageProblem, problemsOf } from './engine.ts';

const fine: EngineFacts = {
  installed: true,
  silent: undefined,
  host: 'unix:///var/run/docker.sock',
  os: 'linux',
  rootless: false,
  cgroups: '2',
  image: NODE_IMAGE,
};

test('an engine of this machine that runs as root is in order', () => {
  expect(problemsOf(fine)).toEqual([]);
});

test('a missing engine, or a missing docker program, is reported', async () => {
  const docker = process.env['DOCKER_HOST'];
  process.env['DOCKER_HOST'] = 'unix:///nowhere/docker.sock';
  try {
    const [problem] = problemsOf(await gatherFacts(NODE_IMAGE));
    expect(problem?.wrong).toMatch(
      /^(No Docker engine answers at unix:\/\/\/\S*: |The program docker is not there)/,
    );
  } finally {
    if (docker === undefined) delete process.env['DOCKER_HOST'];
    else process.env['DOCKER_HOST'] = docker;
  }
});

test('a node image of one’s own may start on cgroup v1', () => {
  expect(problemsOf({ ...fine, cgroups: '1', image: 'space/kind-node:0123' })).toEqual([]);
});

test.each<[string, Partial<EngineFacts>, RegExp, RegExp]>([
  ['no program docker', { installed: false, silent: '' }, /docker is not there/, /Install Docker/],
  [
    'an engine that is away',
    { silent: 'Is the docker daemon running?' },
    /answers at unix:.*running\?$/,
    /Start it/,
  ],
  [
    'an engine of another machine',
    { host: 'tcp://10.0.0.1:2376' },
    /another machine \(tcp:/,
    /unset DOCKER_HOST/,
  ],
  ['an engine behind SSH', { host: 'ssh://me@there' }, /another machine \(ssh:/, /unset DOCKER_HOST/],
  ['a rootless engine', { rootless: true }, /rootless/, /runs as root/],
  ['cgroup v1', { cgroups: '1' }, /cgroup v1/, /--provider native/],
  ['containers of another system', { os: 'windows' }, /of windows/, /Linux containers/],
])('%s is reported with what to do', (_, facts, wrong, mend) => {
  const [problem, ...others] = problemsOf({ ...fine, ...facts });
  expect(others).toEqual([]);
  expect(problem?.wrong).toMatch(wrong);
  expect(problem?.mend).toMatch(mend);
});

test.each([
  ['v1.36.4\n', 'v1.36.3', undefined],
  ['v1.37.0\n', 'v1.36.3', /Kubernetes v1\.37\.0; Space is tested with 1\.36/],
  ['v1.3.6\n', 'v1.36.3', /Kubernetes v1\.3\.6/],
  ['', 'v1.36.3', /no Kubernetes that can be told/],
])('of a node image with %j for %s', (version, wanted, wrong) => {
  const problem = imageProblem('kindest/node:x', version, wanted);
  if (wrong === undefined) expect(problem).toBeUndefined();
  else
    expect(problem).toMatchObject({
      wrong: expect.stringMatching(wrong),
      mend: expect.stringMatching(/SPACE_NODE_IMAGE/),
    });
});
