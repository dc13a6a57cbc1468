/**
 * Records for the module: JSON text in UTF-8. Text that is no well-formed UTF-16 is refused with its index (TOK-02);
 * nothing is replaced. U+0000 is ordinary text (TOK-04).
 */
import { hostError } from './errors.js';

export type RecordValue =
  | string
  | number
  | bigint
  | boolean
  | null
  | undefined
  | readonly RecordValue[]
  | { readonly [key: string]: RecordValue };

/** Index of the first UTF-16 unit that belongs to no pair; -1 where there is none. */
export function findLoneSurrogate(text: string): number {
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 0xd800 || unit > 0xdfff) continue;
    const next = i + 1 < text.length ? text.charCodeAt(i + 1) : 0;
    if (unit > 0xdbff || next < 0xdc00 || next > 0xdfff) return i;
    i++;
  }
  return -1;
}

export function checkText(text: string, path: string): void {
  const index = findLoneSurrogate(text);
  if (index < 0) return;
  const unit = text.charCodeAt(index).toString(16).toUpperCase();
  throw hostError('UTF8', `${path} is not well-formed UTF-16: a lone surrogate U+${unit} at index ${index}`, {
    field: path,
    index,
  });
}

/** JSON of a record. Integers of 64 bits are given as bigint. */
export function toJson(value: RecordValue, path: string): string {
  switch (typeof value) {
    case 'string':
      checkText(value, path);
      return JSON.stringify(value);
    case 'number':
      if (!Number.isFinite(value)) throw hostError('USAGE', `${path} is ${value}; a finite number is needed`, { field: path });
      return JSON.stringify(value);
    case 'bigint':
      return value.toString();
    case 'boolean':
      return value ? 'true' : 'false';
    case 'object':
      if (value === null) return 'null';
      if (isArray(value)) return `[${value.map((item, i) => toJson(item, `${path}[${i}]`)).join(',')}]`;
      return `{${Object.entries(value)
        .filter(([, item]) => item !== undefined)
        .map(([key, item]) => {
          checkText(key, `a key of ${path}`);
          return `${JSON.stringify(key)}:${toJson(item, path === '' ? key : `${path}.${key}`)}`;
        })
        .join(',')}}`;
    default:
      throw hostError('USAGE', `${path} has no JSON form`, { field: path });
  }
}

function isArray(value: object): value is readonly RecordValue[] {
  return Array.isArray(value);
}
