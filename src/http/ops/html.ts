// HTML for the operator's page: a template that escapes, the addresses of its views, its tables and its times.

import { htmlText } from '../../core/text.ts'
import { formatInstant, type Instant, spellInstant, spellSpan } from '../../core/time.ts'

/** A part of a page. Only `html` makes one. */
export class Html {
  readonly #text: string
  private constructor(text: string) {
    this.#text = text
  }
  /** The text of a template, with its parts escaped. */
  static of(strings: TemplateStringsArray, parts: readonly Part[]): Html {
    return new Html(strings.reduce((text, piece, i) => text + written(parts[i - 1]) + piece))
  }
  toString(): string {
    return this.#text
  }
}

/** Nothing is written for null, undefined and false. */
export type Part = Html | string | number | null | undefined | false | readonly Part[]

/** Parts may stand between tags, or in an attribute in double quotes. */
export const html = (strings: TemplateStringsArray, ...parts: Part[]): Html => Html.of(strings, parts)

const written = (part: Part | undefined): string => {
  if (part === undefined || part === null || part === false) return ''
  if (part instanceof Html) return part.toString()
  if (Array.isArray(part)) return part.map(written).join('')
  return htmlText(String(part))
}

/** The address of a view of the page, or of a download; null parameters are left out. */
export function link(
  path: '/ops' | '/ops/export' | '/ops/invoice',
  parameters: Record<string, string | null> = {},
): string {
  const given = Object.entries(parameters).flatMap(([name, value]) => (value === null ? [] : [[name, value]]))
  const query = new URLSearchParams(given).toString()
  return query === '' ? path : `${path}?${query}`
}

export const ago = (at: Instant | null, now: Instant): Html | string =>
  at === null
    ? 'never'
    : html`<time datetime="${formatInstant(at)}" title="${spellInstant(at)}">${spellSpan(now - at)} ago</time>`

/** A title that begins with > has its column aligned to the right. */
export function tableOf(
  titles: readonly string[],
  rows: readonly (readonly Part[])[],
  otherwise: string,
): Html {
  if (rows.length === 0) return html`<p class="quiet">${otherwise}</p>`
  const side = (at: number): Part => titles[at]?.startsWith('>') && 'right'
  return html`<div class="wide"><table><thead><tr>${titles.map((title, at) => html`<th class="${side(at)}">${title.replace('>', '')}</th>`)}</tr></thead>
<tbody>${rows.map((row) => html`<tr>${row.map((cell, at) => html`<td class="${side(at)}" data-of="${titles[at]?.replace('>', '') ?? ''}"><span>${cell}</span></td>`)}</tr>\n`)}</tbody></table></div>`
}
