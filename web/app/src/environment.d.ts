declare module 'virtual:worker-code' {
  const code: string;
  export default code;
}

/** Facts of the modules' build (tools/build_info.py): what a receipt binds. */
declare const __MODULE_BUILD__: Readonly<Record<string, string>> & { readonly executable_sha256: string; readonly text_module_sha256: string; readonly version: string };

interface TrustedTypes {
  createPolicy(name: string, rules: { createScriptURL(url: string): string }): { createScriptURL(url: string): string };
}
declare const trustedTypes: TrustedTypes | undefined;
