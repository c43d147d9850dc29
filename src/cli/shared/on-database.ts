// How a command line begins when it is not for the default database.

import { quoted } from '../../core/shell-word.ts'
import { holdsSecret } from '../../store/address.ts'

/** A password stays in the variable: on a command line, every user of the machine could read it. */
export const onDatabase = (program: string, db: string): string =>
  holdsSecret(db) ? `TRANCHE_DB="$TRANCHE_DB" ${program}` : `${program} --db ${quoted(db)}`
