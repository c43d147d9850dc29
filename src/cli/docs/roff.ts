// Text in the form that roff's man macros require.

/**
 * Text that is shown literally, wherever it is: it is not taken for a request or an escape, and dashes stay dashes.
 */
export const escaped = (text: string): string =>
  text
    .replaceAll('\\', '\\(rs')
    .replaceAll('-', '\\-')
    .replaceAll("'", '\\(aq')
    .replaceAll('`', '\\(ga')
    .replaceAll('^', '\\(ha')
    .replaceAll('~', '\\(ti')
    .replace(
      /[^\n -~]/gu,
      (letter) => `\\[u${(letter.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}]`,
    )
    .replace(/^\./gm, '\\&.')

export const bold = (written: string): string => `\\fB${written}\\fP`
export const italic = (written: string): string => `\\fI${written}\\fP`

/** An argument of a macro. */
export const argument = (text: string): string => `"${escaped(text).replaceAll('"', '\\(dq')}"`

/** The lines before the first section: the page's name, its section of the manual, and whose it is. */
export const titleLines = (name: string, section: number, version: string): string[] => [
  `.TH ${argument(name.toUpperCase())} ${section} "" ${argument(`tranche ${version}`)} "tranche"`,
  // Ragged, and no word is cut: much of it is to be typed.
  '.ad l',
  '.nh',
]

/** Lines to be typed or read as they are. */
export const verbatim = (lines: readonly string[]): string[] => [
  '.PP',
  '.RS 4',
  '.EX',
  ...lines.map(escaped),
  '.EE',
  '.RE',
]

/** A term and its description. */
export const item = (term: string, lines: readonly string[]): string[] => [
  '.TP',
  term === '' ? '\\&' : term,
  ...lines,
]

/** The page from its lines. The first paragraph under a heading needs no macro, and must have none. */
export const pageOf = (lines: readonly string[]): string =>
  `${lines.filter((line, at) => line !== '.PP' || !/^\.S[HS] /.test(lines[at - 1] ?? '')).join('\n')}\n`
