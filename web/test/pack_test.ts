// The packed package in somebody's Vite project, from a page in Chromium (issue "npm pack").
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { test } from 'node:test';

import { DRIVERS } from './drivers.js';
import { type Answer, file, serve } from './server.js';
import { readArtifact, ROOT, slm, artifactPath } from './support.js';

const WEB = join(ROOT, 'web');
const PROJECT = join(ROOT, 'build/web/project');
const TYPES: Record<string, string> = { '.js': 'text/javascript', '.html': 'text/html', '.wasm': 'application/wasm' };

function run(command: string, args: string[], cwd: string): string {
  const done = spawnSync(command, args, { cwd, encoding: 'utf8' });
  assert.equal(done.status, 0, `${command} ${args.join(' ')}\n${done.stdout}${done.stderr}`);
  return done.stdout;
}

const MAIN = `
import { loadModel } from 'slm-web';
globalThis.check = async (_name, url) => {
  try {
    const model = await loadModel(url);
    const { tokens } = await model.generate({ ids: [1, 2, 3] }, { maxNewTokens: 8, stopAtEos: false }).answer;
    return JSON.stringify({ value: { tokens, engine: model.identity().engine.name } });
  } catch (fault) {
    return JSON.stringify({ fault: { code: 'page', message: String(fault) } });
  }
};
`;

test('npm pack: installed into a Vite project, it loads and generates in a page', async () => {
  rmSync(PROJECT, { recursive: true, force: true });
  mkdirSync(PROJECT, { recursive: true });
  run('npm', ['pack', '--ignore-scripts', '--pack-destination', PROJECT], WEB);
  const tarball = readdirSync(PROJECT).find((name) => name.endsWith('.tgz')) ?? '';
  writeFileSync(join(PROJECT, 'package.json'), JSON.stringify({ name: 'user', private: true, type: 'module' }));
  run('npm', ['install', '--ignore-scripts', '--offline', '--no-audit', '--no-fund', join(PROJECT, tarball)], PROJECT);
  assert.deepEqual(
    readdirSync(join(PROJECT, 'node_modules')).filter((name) => !name.startsWith('.')),
    ['slm-web'],
    'it brings nothing else with it',
  );
  writeFileSync(join(PROJECT, 'index.html'), '<!doctype html><meta charset="utf-8"><title>user</title><script type="module" src="/main.js"></script>');
  writeFileSync(join(PROJECT, 'main.js'), MAIN);
  run('node', [join(WEB, 'node_modules/vite/bin/vite.js'), 'build', '--logLevel', 'warn'], PROJECT);

  const routes = new Map<string, Answer>();
  const walk = (folder: string, path: string): void => {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      const at = join(folder, entry.name);
      if (entry.isDirectory()) walk(at, `${path}${entry.name}/`);
      else routes.set(`${path}${entry.name}`, file(new Uint8Array(readFileSync(at)), TYPES[extname(entry.name)]));
    }
  };
  walk(join(PROJECT, 'dist'), '/');
  routes.set('/model.slm', file(readArtifact('slm-demo')));
  const server = await serve(routes);
  const page = await (DRIVERS['chromium'] ?? assert.fail('no driver'))();
  try {
    await page.open(`${server.origin}/index.html`);
    const result = (await page.check('use', `${server.origin}/model.slm`)) as { tokens: number[]; engine: string };
    const record = JSON.stringify({ ids: [1, 2, 3], max_new_tokens: 8, stop_at_eos: false });
    const native = JSON.parse(slm(['run', artifactPath('slm-demo'), '--batch'], `${record}\n`)) as { tokens: number[] };
    assert.deepEqual(result, { tokens: native.tokens, engine: 'chromium' });
  } finally {
    await page.close();
    await server.close();
  }
});
