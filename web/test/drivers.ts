// The three engines, each by its own driver (Debian's browsers; docs/dependencies.md).
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';

import type { CDPSession } from 'playwright-core';

export interface Page {
  readonly engine: string;
  /** Opens the address and waits until the page can be asked. */
  open(url: string): Promise<void>;
  /** `check(name, argument)` in the page. */
  check(name: string, argument: unknown): Promise<unknown>;
  /** Lets the origin store so many bytes; undefined: as many as before. Only where the driver can. */
  limitStorage?(origin: string, bytes: number | undefined): Promise<void>;
  close(): Promise<void>;
}

interface Outcome {
  value?: unknown;
  fault?: { code: string; message: string };
}

function valueOf(text: unknown): unknown {
  const outcome = JSON.parse(String(text)) as Outcome;
  if (outcome.fault !== undefined) throw Object.assign(new Error(outcome.fault.message), outcome.fault);
  return outcome.value;
}

const READY = "typeof globalThis.check === 'function'";
const call = (name: string, argument: unknown): string => `globalThis.check(${JSON.stringify(name)}, ${JSON.stringify(argument)})`;

function program(name: string, candidates: string[]): string {
  const found = candidates.find((path) => existsSync(path));
  if (found === undefined) throw new Error(`${name} is not installed; ./dev browser-test installs it`);
  return found;
}

async function chromium(): Promise<Page> {
  const { chromium: driver } = await import('playwright-core');
  // A profile on disk: one in memory has no storage limits.
  const profile = mkdtempSync(join(tmpdir(), 'slm-chromium-'));
  const browser = await driver.launchPersistentContext(profile, {
    executablePath: program('chromium', ['/usr/bin/chromium']),
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync'],
  });
  const page = await browser.newPage();
  let session: CDPSession | undefined;
  return {
    engine: 'chromium',
    async open(url) {
      await page.goto(url);
      await page.waitForFunction(READY);
    },
    check: async (name, argument) => valueOf(await page.evaluate(call(name, argument))),
    async limitStorage(origin, bytes) {
      session ??= await browser.newCDPSession(page); // the limit lasts as long as it
      await session.send('Storage.overrideQuotaForOrigin', bytes === undefined ? { origin } : { origin, quotaSize: bytes });
    },
    async close() {
      await browser.close();
      rmSync(profile, { recursive: true, force: true });
    },
  };
}

async function firefox(): Promise<Page> {
  const { default: puppeteer } = await import('puppeteer-core');
  const browser = await puppeteer.launch({
    browser: 'firefox',
    executablePath: program('firefox-esr', ['/usr/bin/firefox-esr']),
    protocolTimeout: 600_000,
  });
  const page = await browser.newPage();
  return {
    engine: 'firefox',
    async open(url) {
      await page.goto(url);
      await page.waitForFunction(READY);
    },
    check: async (name, argument) => valueOf(await page.evaluate(call(name, argument))),
    close: () => browser.close(),
  };
}

function miniBrowser(): string {
  const listed = spawnSync('dpkg', ['-L', 'libwebkit2gtk-4.1-0'], { encoding: 'utf8' }).stdout ?? '';
  return program('webkit2gtk-driver', listed.split('\n').filter((path) => path.endsWith('/MiniBrowser')));
}

async function webkitgtk(): Promise<Page> {
  const { Builder, Capabilities } = await import('selenium-webdriver');
  const port = 45000 + (process.pid % 10000);
  const driverProcess: ChildProcess = spawn(
    program('xvfb', ['/usr/bin/xvfb-run']),
    ['-a', program('webkit2gtk-driver', ['/usr/bin/WebKitWebDriver']), `--port=${port}`],
    { stdio: 'ignore', detached: true },
  );
  const capabilities = new Capabilities({
    browserName: 'MiniBrowser',
    'webkitgtk:browserOptions': { binary: miniBrowser(), args: ['--automation'] },
  });
  const server = `http://127.0.0.1:${port}`;
  for (let i = 0; i < 100; i++) {
    if (await fetch(`${server}/status`).then((r) => r.ok).catch(() => false)) break;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  const driver = await new Builder().usingServer(server).withCapabilities(capabilities).build();
  await driver.manage().setTimeouts({ script: 600_000 });
  return {
    engine: 'webkitgtk',
    async open(url) {
      await driver.get(url);
      await driver.wait(() => driver.executeScript<boolean>(`return ${READY}`), 20_000);
    },
    check: async (name, argument) =>
      valueOf(await driver.executeAsyncScript(`const done = arguments[0]; ${call(name, argument)}.then(done);`)),
    async close() {
      await driver.quit();
      if (driverProcess.pid !== undefined) process.kill(-driverProcess.pid);
    },
  };
}

export const DRIVERS: Record<string, () => Promise<Page>> = { chromium, firefox, webkitgtk };
