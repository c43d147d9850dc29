// A word as a POSIX shell takes it whole.

/** As it is where no shell would take it apart, else in single quotes. */
export const quoted = (word: string): string => (/^[\w@%+=:,./-]+$/.test(word) ? word : singleQuoted(word))

/** In single quotes always, for zsh too. */
export const singleQuoted = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`
