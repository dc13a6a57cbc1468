/** The page: three things to do, one model. */
import type { Model } from '../../src/client.js';
import { Chat } from './chat.js';
import { h, tabs } from './dom.js';
import { remoteModel } from './fetching.js';
import { modelBar, ModelChooser, SHIPPED } from './models.js';
import { ReceiptView } from './receipt.js';
import { VerifyView } from './verify.js';
import { openModel } from './workers.js';

const EXAMPLES = ['Ada likes tea. Ben likes soup. What does Ben like?', 'Eva has 3 coins. Max has 4 coins. How many coins do they have?', 'Put 9, 0, 4 in order.'];

function need(selector: string): HTMLElement {
  const found = document.querySelector<HTMLElement>(selector);
  if (found === null) throw new Error(`the page lacks ${selector}`);
  return found;
}

const chatPanel = h('div');
let chat: Chat | undefined;
let model: Model | undefined;

function showChooser(): void {
  chat?.close();
  chat = undefined;
  model?.close();
  model = undefined;
  chatPanel.replaceChildren(new ModelChooser(showModel).element);
}

function showModel(loaded: Model, shipped: boolean): void {
  model = loaded;
  chat = new Chat(loaded, shipped ? EXAMPLES : []);
  chatPanel.replaceChildren(modelBar(loaded, showChooser), chat.element);
}

async function currentModel(): Promise<Model> {
  if (model !== undefined) return model;
  const loaded = await openModel(await remoteModel(SHIPPED), {});
  showModel(loaded, true);
  return loaded;
}

if (!window.isSecureContext) {
  need('#notice').append(
    h('p', { class: 'card notice' }, 'This page came over plain HTTP. It works, but slower: chunks are hashed by the module’s own SHA-256, and nothing is stored in this browser.'),
  );
}
const verify = new VerifyView({ model: currentModel });
const receipt = new ReceiptView();
need('#panels').append(chatPanel, verify.element, receipt.element);
tabs(need('#tabs'), 'do', [
  { id: 'chat', label: 'Chat', panel: chatPanel },
  { id: 'verify', label: 'Verify', panel: verify.element },
  { id: 'receipt', label: 'Receipt', panel: receipt.element },
]);
need('#footer').append(
  h('p', { class: 'hint' }, `slm ${__MODULE_BUILD__.version}, module `, h('span', { class: 'mono' }, __MODULE_BUILD__.executable_sha256.slice(0, 12)), '. Static files; no requests to anywhere but where you point it.'),
);
showChooser();
