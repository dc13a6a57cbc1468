/**
 * Text of models and bundles as it is shown: never as markup, and what does not print or turns the direction of writing is
 * written out.
 */

/** A piece of text: as it is, or one character that is written out. */
export interface Piece {
  text: string;
  escaped: boolean;
}

// Controls, and everything that turns the direction of writing or hides in it; tags; what is no character.
const HIDDEN =
  /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\u206a-\u206f\ufff9-\ufffb\u{e0000}-\u{e007f}\p{Noncharacter_Code_Point}\p{Cs}]/u;
// Joiners and marks of no width: part of ordinary text (emoji, Indic and Persian scripts), but not to be overlooked.
const NO_WIDTH = /[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u3164\ufe00-\ufe0f\ufeff\uffa0\u{e0100}-\u{e01ef}]/u;

export interface EscapeOptions {
  /** Line feeds and tabs stay what they are. */
  keepLines?: boolean;
  /** What has no width is written out too. */
  all?: boolean;
}

/** "U+202E". */
export function codePointName(char: string): string {
  return `U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;
}

export function piecesOf(text: string, options: EscapeOptions = {}): Piece[] {
  const pieces: Piece[] = [];
  let plain = '';
  for (const char of text) {
    const line = char === '\n' || char === '\t';
    const hidden = line ? options.keepLines !== true : HIDDEN.test(char) || (options.all === true && NO_WIDTH.test(char));
    if (!hidden) {
      plain += char;
      continue;
    }
    if (plain !== '') pieces.push({ text: plain, escaped: false });
    plain = '';
    pieces.push({ text: char === '\n' ? '\\n' : char === '\t' ? '\\t' : codePointName(char), escaped: true });
  }
  if (plain !== '') pieces.push({ text: plain, escaped: false });
  return pieces;
}

/** The same as one string, for names of things and for attributes. */
export function plainText(text: string, limit = 200): string {
  const cut = [...text.slice(0, 2 * limit)].slice(0, limit).join('');
  const shown = piecesOf(cut, { all: true }).map((piece) => (piece.escaped ? `[${piece.text}]` : piece.text)).join('');
  return cut.length < text.length ? `${shown}… (${text.length} units)` : shown;
}

export function hexBytes(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join(' ');
}

export function sizeText(bytes: number): string {
  const units = ['bytes', 'KB', 'MB', 'GB'];
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${unit === 0 ? value : value.toFixed(value < 10 ? 1 : 0)} ${units[unit]}`;
}

/** A number as people read it: 0, 0.0123, 2.5e-5. */
export function numberText(value: number, digits = 3): string {
  if (value === 0) return '0';
  const size = Math.abs(value);
  return size < 1e-3 || size >= 1e6 ? value.toExponential(digits - 1) : value.toPrecision(digits);
}
