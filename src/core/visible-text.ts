// Text that somebody else wrote, as a person may read it: on one line, with nothing in it that hides, moves or reorders
// the text around it.

/**
 * Control characters, line and paragraph ends, halves of a pair, and what has no shape of its own: marks that turn the
 * direction of text, joiners, fillers, tags.
 */
export const UNSEEN = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Cf}\p{Default_Ignorable_Code_Point}]/gu

const NAMES: Record<string, string> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

/** The text with every such character spelled out: a line break as \n, a right-to-left override as \u202e. */
export const visible = (text: string): string =>
  text.replace(UNSEEN, (unseen) => NAMES[unseen] ?? codeOf(unseen))

/** The same of a text whose line ends are our own. */
export const visibleLines = (text: string): string => text.split('\n').map(visible).join('\n')

/** Blanks that pass for others, and all but the first of several between words: they pass for the next column. */
const BLANKS = /(?! )[\p{Zs}\u2800]|(?<=\S +) (?= *\S)/gu
/** Backslashes that would read as the beginning of what we write for a character. */
const LIKE_OURS = new RegExp(`\\\\+(?=[nrtu]|${UNSEEN.source}|(?! )[\\p{Zs}\\u2800])`, 'gu')

/** The same in a table or beside other text, where blanks part one thing from the next. */
export const visibleCell = (text: string): string =>
  visible(text.replace(LIKE_OURS, (slashes) => slashes + slashes).replace(BLANKS, codeOf))

function codeOf(character: string): string {
  const code = (character.codePointAt(0) ?? 0).toString(16)
  return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, '0')}`
}
