// HTML from a template that escapes: whatever is put into it becomes text, unless it came from such a template itself.

import { htmlText } from '../../core/html-text.ts'

/** A piece of a page. Only `html` makes one. */
export class Html {
  readonly #text: string
  private constructor(text: string) {
    this.#text = text
  }
  /** What a template says, with its parts escaped. */
  static of(strings: TemplateStringsArray, parts: readonly Part[]): Html {
    return new Html(strings.reduce((text, piece, i) => text + written(parts[i - 1]) + piece))
  }
  toString(): string {
    return this.#text
  }
}

/** Nothing is written for null, undefined and false. */
export type Part = Html | string | number | null | undefined | false | readonly Part[]

/** Parts belong between tags, or in an attribute in double quotes. */
export const html = (strings: TemplateStringsArray, ...parts: Part[]): Html => Html.of(strings, parts)

const written = (part: Part | undefined): string => {
  if (part === undefined || part === null || part === false) return ''
  if (part instanceof Html) return part.toString()
  if (Array.isArray(part)) return part.map(written).join('')
  return htmlText(String(part))
}

/** The address of something on the page, or of a download beside it; parameters that are null are left out. */
export function link(
  path: '/ops' | '/ops/export' | '/ops/invoice',
  parameters: Record<string, string | null> = {},
): string {
  const given = Object.entries(parameters).flatMap(([name, value]) => (value === null ? [] : [[name, value]]))
  const query = new URLSearchParams(given).toString()
  return query === '' ? path : `${path}?${query}`
}
