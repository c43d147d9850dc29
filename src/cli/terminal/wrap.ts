// Breaks text into lines of a given width. Colours take no room.

import { widthOf } from './text-width.ts'

/** Lines of at most `width`, unless a word is longer. */
export function wrapped(text: string, width: number): string[] {
  return text.split('\n').flatMap((part) => {
    const lines: string[] = []
    let line = ''
    for (const word of part.split(' ').filter((one) => one !== '')) {
      if (line !== '' && widthOf(line) + 1 + widthOf(word) > width) {
        lines.push(line)
        line = ''
      }
      line += line === '' ? word : ` ${word}`
    }
    return [...lines, line]
  })
}
