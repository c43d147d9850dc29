// How a command line begins when it is not for the default database.

import { quoted } from '../../core/shell-word.ts'
import { holdsSecret } from '../../store/address.ts'

/** A password stays in the variable: on a command line, every user of the machine could read it. */
export const onDatabase = (program: string, db: string): string =>
  holdsSecret(db) ? `TRANCHE_DB="$TRANCHE_DB" ${program}` : `${program} --db ${quoted(db)}`

/**
 * A message whose commands name the database of this one, as `self` begins a command line: whoever tells what to run
 * does not know how the database was named. What concerns another database, or none, stays.
 */
export const onSameDatabase = (message: string, self: string): string =>
  message.replace(/`tranche (?!-|docs |copy |backup)/g, () => `\`${self} `)
