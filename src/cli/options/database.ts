// --db: its default, and the warning about a password on the command line.

import { Option } from 'commander'

export const DATABASE_DEFAULT = 'tranche.db'

export const dbOption = () =>
  new Option('--db <file>', 'the database: a file, or postgres://USER@HOST/NAME')
    .env('TRANCHE_DB')
    .default(DATABASE_DEFAULT)

/** What is said when the value of a flag that names a database holds a password. */
export const seenByAll = (flag: string): string =>
  `everybody on this machine can read the password in ${flag}: put the address into the variable TRANCHE_DB, or the password into ~/.pgpass`
