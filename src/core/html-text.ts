// Text that somebody else wrote, as HTML writes it.

import { visible } from './visible-text.ts'

const ENTITIES: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
  '`': '&#96;',
}

/** Between tags or in a quoted attribute: no tag is in it, and nothing that hides the rest or turns its direction. */
export const htmlText = (text: string): string =>
  visible(text).replace(/[&<>"'`]/g, (one) => ENTITIES[one] ?? one)
