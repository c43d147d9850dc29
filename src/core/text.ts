// Text: its limits, how text from outside is made safe to show, and how numbers are written.

// Length limits, in characters, and how a longer text is cut.

/** The length of an id that a partner chooses: of a user, a plan, an order. */
export const ID_MAX = 255
export const TEXT_MAX = 255
export const EMAIL_MAX = 320
/** The length of a reason: why something failed, or why an operator acted. */
export const REASON_MAX = 2_000
/** The length of the reason why a webhook was not sent, which may have words of the receiver. */
export const FAILURE_REASON_MAX = 500

/** At most `max` characters of a text; when it is cut, the last one is an ellipsis. */
export function cut(text: string, max: number): string {
  const characters = [...text]
  return characters.length <= max ? text : `${characters.slice(0, Math.max(0, max - 1)).join('')}…`
}

// Text from outside, made safe to read: on one line, without anything that hides, moves or reorders the text around it.

/** Controls, line and paragraph ends, halves of a surrogate pair, and characters without a shape. */
const UNSEEN = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Cf}\p{Default_Ignorable_Code_Point}]/gu

const NAMES: Record<string, string> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

/** The text with every such character spelled out: a line break as \n, a right-to-left override as \u202e. */
export const visible = (text: string): string =>
  text.replace(UNSEEN, (unseen) => NAMES[unseen] ?? codeOf(unseen))

/** `visible` for a text of several lines, whose line ends are our own. */
export const visibleLines = (text: string): string => text.split('\n').map(visible).join('\n')

/** Blanks other than the space, and the further ones of several, which would look like the next column. */
const BLANKS = /(?! )[\p{Zs}\u2800]|(?<=\S +) (?= *\S)/gu
/** Backslashes that would look like the beginning of one of our escapes. */
const LIKE_OURS = new RegExp(`\\\\+(?=[nrtu]|${UNSEEN.source}|(?! )[\\p{Zs}\\u2800])`, 'gu')

/** `visible` for a table, or beside other text, where blanks separate the fields. */
export const visibleCell = (text: string): string =>
  visible(text.replace(LIKE_OURS, (slashes) => slashes + slashes).replace(BLANKS, codeOf))

function codeOf(character: string): string {
  const code = (character.codePointAt(0) ?? 0).toString(16)
  return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, '0')}`
}

const ENTITIES: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
  '`': '&#96;',
}

/** Safe between tags and in a quoted attribute, with nothing that hides the rest or changes its direction. */
export const htmlText = (text: string): string =>
  visible(text).replace(/[&<>"'`]/g, (one) => ENTITIES[one] ?? one)

/** Unchanged, in single quotes, or with escapes of bash and zsh for characters that a terminal does not show. */
export function quoted(word: string): string {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word
  if (word.search(UNSEEN) < 0) return singleQuoted(word)
  const escaped = word.replace(/[\\']/g, '\\$&').replace(UNSEEN, (unseen) => {
    const code = (unseen.codePointAt(0) ?? 0).toString(16)
    return `\\U${code.padStart(8, '0')}`
  })
  return `$'${escaped}'`
}

/** Always in single quotes, for zsh too. */
export const singleQuoted = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`

// Numbers as people read them, and a number with its noun.

/** 1234567.89 as 1,234,567.89. */
export function grouped(decimal: string | number): string {
  const [whole = '', fraction] = String(decimal).split('.')
  const marked = whole.replace(/\B(?=(\d{3})+$)/g, ',')
  return fraction === undefined ? marked : `${marked}.${fraction}`
}

export const counted = (count: number, noun: string, plural = `${noun}s`): string =>
  `${grouped(count)} ${count === 1 ? noun : plural}`

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const

/** "3.4 GiB". */
export function spellBytes(bytes: number): string {
  let [value, unit] = [bytes, 0]
  for (; value >= 1024 && unit < UNITS.length - 1; unit++) value /= 1024
  return `${unit === 0 ? value : value.toFixed(1)} ${UNITS[unit]}`
}

/** The free space of a disk: "20 GiB free of 40 GiB (50 %)". */
export function spellFree(free: number, total: number): string {
  const share = total === 0 ? 0 : Math.floor((100 * free) / total)
  return `${spellBytes(free)} free of ${spellBytes(total)} (${share} %)`
}
