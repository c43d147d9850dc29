// HTML for the operator's page: a template that escapes, tables, times, and the frame of a page with its style sheet
// and its security headers.

import { hash } from 'node:crypto'
import { htmlText } from '../../core/text.ts'
import { formatInstant, type Instant, spellInstant, spellSpan } from '../../core/time.ts'

/** A part of a page. Only `html` makes one. */
export class Html {
  readonly #text: string
  private constructor(text: string) {
    this.#text = text
  }
  static of(strings: TemplateStringsArray, parts: readonly Part[]): Html {
    return new Html(strings.reduce((text, piece, i) => text + written(parts[i - 1]) + piece))
  }
  toString(): string {
    return this.#text
  }
}

/** Nothing is written for null, undefined and booleans. */
export type Part = Html | string | number | boolean | null | undefined | readonly Part[]

/** Parts may stand between tags, or in an attribute in double quotes. */
export const html = (strings: TemplateStringsArray, ...parts: Part[]): Html => Html.of(strings, parts)

const written = (part: Part | undefined): string => {
  if (part === undefined || part === null || typeof part === 'boolean') return ''
  if (part instanceof Html) return part.toString()
  if (Array.isArray(part)) return part.map(written).join('')
  return htmlText(String(part))
}

export const ago = (at: Instant | null, now: Instant): Html | string =>
  at === null
    ? 'never'
    : html`<time datetime="${formatInstant(at)}" title="${spellInstant(at)}">${spellSpan(now - at)} ago</time>`

/** A title that begins with > has its column aligned to the right. A table that is too wide scrolls by itself. */
export function tableOf(titles: readonly string[], rows: readonly (readonly Part[])[], empty: string): Html {
  if (rows.length === 0) return html`<p class="quiet">${empty}</p>`
  const side = titles.map((title) => title.startsWith('>') && html` class="right"`)
  return html`<div class="wide"><table><thead><tr>${titles.map((title, at) => html`<th${side[at]}>${title.replace('>', '')}</th>`)}</tr></thead>
<tbody>${rows.map((row) => html`<tr>${row.map((cell, at) => html`<td${side[at]}>${cell}</td>`)}</tr>\n`)}</tbody></table></div>`
}

const RENEWED_S = 60

type Frame = { title: string; renews: boolean }

export function framedPage({ title, renews }: Frame, ...parts: Part[]): Html {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
${renews && html`<meta http-equiv="refresh" content="${RENEWED_S}">\n`}<title>${title} - tranche</title>
${STYLE}
</head>
<body>
<header><h1><a href="/ops">tranche</a></h1><span class="quiet">${title}</span></header>
<main>
${parts}
</main>
<footer><p>Times are UTC. This page changes nothing: the commands on it are for a shell. Only live business is counted.</p></footer>
</body>
</html>
`
}

const SHEET = html`
:root { color-scheme: light dark; --ink: #1c1f24; --quiet: #5b6470; --line: #d8dce2; --card: #fff; --page: #f3f5f7;
  --link: #0b57a8; --good: #1a7f4b; --bad: #b3261e; --wait: #9a5b00; --badbg: #fdecea; --waitbg: #fff4e0; --price: #66707c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --quiet: #9aa4b1; --line: #333a44; --card: #1a1e24;
  --page: #111418; --link: #7db7ff; --good: #5fce93; --bad: #ff8a80; --wait: #ffc163; --badbg: #3a1d1b; --waitbg: #382a12; --price: #8b95a3; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.45 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
header, main, footer { max-width: 1240px; margin: 0 auto; padding: 0 16px; }
header { display: flex; flex-wrap: wrap; gap: 4px 16px; align-items: baseline; padding-top: 16px; }
h1 { font-size: 20px; margin: 0; }
h1 a { color: inherit; text-decoration: none; }
h2 { font-size: 16px; margin: 0 0 8px; }
p { margin: 0 0 8px; }
a { color: var(--link); }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px; margin: 14px 0; }
.quiet, th, figcaption, footer { color: var(--quiet); font-size: 13px; font-weight: 400; }
.wide { overflow-x: auto; } .wide + p { margin-top: 8px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 5px 12px 5px 0; font-size: 14px; border-top: 1px solid var(--line); white-space: nowrap; }
thead th { border-top: 0; }
tr > :first-child { position: sticky; left: 0; background: var(--card); }
.name { display: inline-block; width: max-content; max-width: 24em; overflow-wrap: anywhere; white-space: normal; }
.right { text-align: right; }
.filled, .good { color: var(--good); } .failed, .bad { color: var(--bad); } .partial, .wait { color: var(--wait); }
.cancelled { color: var(--quiet); }
.finding { border-left: 4px solid var(--wait); background: var(--waitbg); padding: 8px 12px; margin: 0 0 8px; border-radius: 4px; overflow-wrap: anywhere; }
.finding.page { border-color: var(--bad); background: var(--badbg); }
code { font: 12.5px/1.5 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
code { user-select: all; } .finding code { display: block; } td code { color: var(--quiet); }
summary { cursor: pointer; margin: 4px 0 8px; }
dl { display: flex; flex-wrap: wrap; gap: 8px 32px; margin: 0; }
dt { color: var(--quiet); font-size: 13px; } dd { margin: 0; font-size: 19px; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
figure { margin: 0; } figcaption { display: flex; justify-content: space-between; gap: 8px; } figcaption span { white-space: nowrap; }
svg { display: block; width: 100%; height: 190px; overflow: visible; }
svg path { fill: none; vector-effect: non-scaling-stroke; }
.line { stroke: var(--price); stroke-width: 1.5; }
.dot { stroke: var(--wait); stroke-width: 8; stroke-linecap: round; }
.dot.filled { stroke: var(--good); } .dot.failed { stroke: var(--bad); } .dot.cancelled { stroke: var(--quiet); }
.grid { stroke: var(--line); stroke-width: 1; }
@media (max-width: 600px) { body { font-size: 13px; } header, main, footer { padding: 0 8px; } header { padding-top: 10px; }
  section { padding: 10px; margin: 8px 0; } th, td { padding: 3px 10px 3px 0; font-size: 13px; } .finding { padding: 5px 8px; margin: 0 0 6px; }
  .finding p { margin: 0 0 2px; } dl { gap: 4px 24px; } dd { font-size: 16px; } code { font-size: 12px; } svg { height: 130px; } }
`

const STYLE = html`<style>${SHEET}</style>`

/** Allows only the style sheet with this hash: no script, form, picture, outside address or frame around it. */
const POLICY = `default-src 'none'; style-src 'sha256-${hash('sha256', String(SHEET), 'base64')}'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'`

export const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': POLICY,
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'same-origin',
}
