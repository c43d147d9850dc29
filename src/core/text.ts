// How long a text may be, in characters.

/** An id that a partner chooses: of a user, a plan, an order. */
export const ID_MAX = 255
/** Any other name or word, unless it has a limit of its own. */
export const TEXT_MAX = 255
export const EMAIL_MAX = 320
/** Why something failed, or why an operator did something. */
export const REASON_MAX = 2_000
