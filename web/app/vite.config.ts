import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { build, defineConfig, type Plugin } from 'vite';

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/**
 * `virtual:worker-code`: the worker as one text. A worker that starts from a blob inherits the document's policy, so that
 * it has no network either, whatever headers the file server sends.
 */
function workerCode(): Plugin {
  const id = 'virtual:worker-code';
  return {
    name: 'worker-code',
    resolveId: (source) => (source === id ? `\0${id}` : undefined),
    async load(source) {
      if (source !== `\0${id}`) return undefined;
      const built = await build({
        configFile: false,
        logLevel: 'warn',
        build: { write: false, target: 'es2022', lib: { entry: here('./src/worker.ts'), formats: ['iife'], name: 'worker' } },
      });
      const output = (Array.isArray(built) ? built : [built]).flatMap((one) => ('output' in one ? one.output : []));
      const [chunk] = output;
      if (output.length !== 1 || chunk?.type !== 'chunk') throw new Error('the worker is not one piece of code');
      return `export default ${JSON.stringify(chunk.code)};`;
    },
  };
}

export default defineConfig({
  root: here('.'),
  base: './',
  plugins: [workerCode()],
  define: { __MODULE_BUILD__: readFileSync(process.env['SLM_MODULE_BUILD'] ?? here('../../build/wasm/src/capi/build_info.json'), 'utf8') },
  build: {
    outDir: here('../../build/page'),
    emptyOutDir: true,
    target: 'es2022',
    modulePreload: false, // its polyfill fetches, which the page's policy forbids
    assetsInlineLimit: 0,
    rollupOptions: { input: { index: here('./index.html'), loader: here('./loader.html') } },
  },
});
