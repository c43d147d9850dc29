// How wide text is on a terminal, and where it is cut to fit. A table counts columns, of which a wide character takes
// two; everything else counts characters.

import { stripVTControlCharacters } from 'node:util'
import { cut } from '../../core/text-lengths.ts'
import { visibleCell } from '../../core/visible-text.ts'

/** In characters. Colours take no room. */
export const widthOf = (text: string): number => [...stripVTControlCharacters(text)].length

/** Measures in columns. Only a table needs the package, so it is loaded only for one. */
export const measureColumns = async (): Promise<(text: string) => number> =>
  (await import('string-width')).default

/**
 * Counted in characters as a reader sees them; the terminal cuts a name of wide ones. Nobody's text can break out of
 * its column.
 */
export const clipped = (text: string, room: number): string => cut(visibleCell(text), room)

/** Like `clipped`, but what is kept is the end. */
export const clippedLeft = (text: string, room: number): string => {
  const characters = [...visibleCell(text)]
  return characters.length <= room
    ? characters.join('')
    : `…${characters.slice(characters.length - room + 1).join('')}`
}
