// Colours, where they are welcome.

import { styleText } from 'node:util'
import type { Streams } from '../context.ts'

export type Style = 'bold' | 'dim' | 'green' | 'yellow' | 'red' | 'blue' | 'cyan' | 'italic' | 'underline'
export type Paint = (style: Style, text: string) => string

/** Colours only on a terminal, and never against NO_COLOR or --no-color. */
export function createPaint(out: Streams['out'], wanted: boolean): Paint {
  if (!wanted || !out.isTTY) return (_, text) => text
  return (style, text) => styleText(style, text, { stream: out })
}
