// What the model expects of a call: a status, and a body in full or the facts it has to name.

export type Expected = { status: number; dueRemaining?: number } & (
  | { body: unknown }
  /** An error whose words are free: what its detail must contain. */
  | { says: readonly string[] }
)

export const ok = (body: unknown): Expected => ({ status: 200, body })
export const refused = (status: number, detail: string): Expected => ({ status, body: { detail } })
export const refusedNaming = (status: number, ...says: readonly string[]): Expected => ({ status, says })

/** Takes the place, in an expected body, of a text that only the program can know. */
export const ANY_TEXT = '<any text>'
