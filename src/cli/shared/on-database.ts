// How a command line for another database than the usual one begins.

import { quoted } from '../../core/shell-word.ts'
import { holdsSecret } from '../../store/address.ts'

/** A password stays in the variable: on a command line all who use the machine could read it. */
export const onDatabase = (program: string, db: string): string =>
  holdsSecret(db) ? `TRANCHE_DB="$TRANCHE_DB" ${program}` : `${program} --db ${quoted(db)}`
