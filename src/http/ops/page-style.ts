// What every view of the operator's page stands in: its frame, its style sheet, and the headers that say what a browser
// may do with it.

import { createHash } from 'node:crypto'
import { type Html, html, type Part } from './html.ts'

/** How often an open overview reloads itself. */
const RENEWED_S = 60

type Frame = { title: string; signOut: boolean; renews?: boolean }

export function framedPage({ title, signOut, renews = false }: Frame, ...parts: Part[]): Html {
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
<header><h1><a href="/ops">tranche</a></h1><span class="quiet">${title}</span>${signOut && SIGN_OUT}</header>
<main>
${parts}
</main>
<footer><p>Times are UTC. This page changes nothing: the commands on it are for a shell. Only live business is counted.</p></footer>
</body>
</html>
`
}

const SIGN_OUT = html`<form method="post" action="/ops"><button name="sign-out" value="yes">Sign out</button></form>`

const SHEET = html`
:root { color-scheme: light dark; --ink: #1c1f24; --quiet: #5b6470; --line: #d8dce2; --card: #fff; --page: #f3f5f7;
  --link: #0b57a8; --good: #1a7f4b; --bad: #b3261e; --wait: #9a5b00; --badbg: #fdecea; --waitbg: #fff4e0; --price: #66707c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --quiet: #9aa4b1; --line: #333a44; --card: #1a1e24;
  --page: #111418; --link: #7db7ff; --good: #5fce93; --bad: #ff8a80; --wait: #ffc163; --badbg: #3a1d1b; --waitbg: #382a12; --price: #8b95a3; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.45 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
header, main, footer { max-width: 1120px; margin: 0 auto; padding: 0 16px; }
header { display: flex; flex-wrap: wrap; gap: 4px 16px; align-items: baseline; padding-top: 16px; }
header form { margin-left: auto; }
h1 { font-size: 20px; margin: 0; }
h1 a { color: inherit; text-decoration: none; }
h2 { font-size: 16px; margin: 0 0 8px; }
p { margin: 0 0 8px; }
a { color: var(--link); }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px; margin: 14px 0; }
.quiet, th, figcaption, footer { color: var(--quiet); font-size: 13px; font-weight: 400; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 5px 14px 5px 0; border-top: 1px solid var(--line); white-space: nowrap; }
thead th { border-top: 0; }
.name { display: inline-block; min-width: 9em; max-width: 30em; overflow-wrap: anywhere; white-space: normal; }
.right { text-align: right; padding-right: 14px; }
.filled, .good { color: var(--good); } .failed, .bad { color: var(--bad); } .partial, .wait { color: var(--wait); }
.cancelled { color: var(--quiet); }
.finding { border-left: 4px solid var(--wait); background: var(--waitbg); padding: 8px 12px; margin: 0 0 8px; border-radius: 4px; overflow-wrap: anywhere; }
.finding.page { border-color: var(--bad); background: var(--badbg); }
code { font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
.finding code { display: block; user-select: all; }
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
input, button { font: inherit; color: inherit; background: var(--page); border: 1px solid var(--line); border-radius: 6px; padding: 6px 10px; }
button { cursor: pointer; }
form.signin { max-width: 380px; } form.signin input { width: 100%; margin: 4px 0 10px; }
nav { margin-top: 8px; display: flex; gap: 16px; }
@media (max-width: 600px) { thead { display: none; } table, tbody, tr { display: block; }
  tr { border-top: 1px solid var(--line); padding: 6px 0; }
  td, .right { display: flex; justify-content: space-between; gap: 16px; padding: 1px 0; border: 0; text-align: right; white-space: normal; }
  td::before { content: attr(data-of); color: var(--quiet); font-size: 13px; text-align: left; white-space: nowrap; }
  td > span { overflow-wrap: anywhere; } .name { min-width: 0; } .aside { display: block; } }
`

const STYLE = html`<style>${SHEET}</style>`

/** The hash by which the content security policy names the sheet. */
const STYLE_HASH = createHash('sha256').update(String(SHEET)).digest('base64')

/**
 * Allows only the style sheet with this hash, and forms to the same origin: no script, no picture, no outside address,
 * no frame around it.
 */
export const policyFor = (hash: string): string =>
  `default-src 'none'; style-src 'sha256-${hash}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`

export const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': policyFor(STYLE_HASH),
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  // The page's address contains names of partners and plans, and it links to no other site.
  'referrer-policy': 'same-origin',
}
