// How long a text may be, in characters, and how a longer one is cut.

/** An id that a partner chooses: of a user, a plan, an order. */
export const ID_MAX = 255
/** Any other name or word, unless it has a limit of its own. */
export const TEXT_MAX = 255
export const EMAIL_MAX = 320
/** Why something failed, or why an operator did something. */
export const REASON_MAX = 2_000
/** Why a webhook was not delivered. Some of what it says is the receiver's: the names in its certificate, say. */
export const FAILURE_REASON_MAX = 500

/** At most `max` characters of a text; where some are left out, the last one is an ellipsis. */
export function cut(text: string, max: number): string {
  const characters = [...text]
  return characters.length <= max ? text : `${characters.slice(0, Math.max(0, max - 1)).join('')}…`
}
