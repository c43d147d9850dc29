// The commands that do the demonstration's work for real, named as this very program was started.

import { dirname, isAbsolute, join, relative, resolve } from 'node:path'
import { isSea } from 'node:sea'
import { quoted } from '../../core/shell-word.ts'
import { holdsSecret, isServer, shownAddress } from '../../store/address.ts'
import { DATABASE_DEFAULT } from '../options/database.ts'
import { onDatabase } from '../shared/on-database.ts'

export type ProgramName = {
  /** As the person would type it again. */
  typed: string
  /** For cron, which knows no working directory and little of a PATH. */
  absolute: string
}

export type NextCommand = { what: string; command: string }

/** The parts of a process that show how it was started. */
export type Started = { argv0: string; execPath: string; script: string; cwd: string; built: boolean }

const CHECKOUT_STARTER = 'tranche'

/**
 * The executable, under the name by which it was called; from a checkout, the starter beside the running script,
 * because the starter's own name is no longer among the process's arguments.
 */
export function programName({ argv0, execPath, script, cwd, built }: Started): ProgramName {
  if (built) return { typed: argv0, absolute: execPath }
  const absolute = join(dirname(resolve(cwd, script)), CHECKOUT_STARTER)
  const near = relative(cwd, absolute)
  if (near.startsWith('..') || isAbsolute(near)) return { typed: absolute, absolute }
  // Without a slash a shell would look for it along the PATH.
  return { typed: near.includes('/') ? near : `./${near}`, absolute }
}

export const started = (): Started => ({
  argv0: process.argv0,
  execPath: process.execPath,
  script: process.argv[1] ?? '',
  cwd: process.cwd(),
  built: isSea(),
})

const SERVICE_URL = 'http://127.0.0.1:8080'
const USER = {
  partner_user_id: 'u1',
  consent_accepted: true,
  consent_version: 'v1',
  consent_timestamp: '2026-01-05',
}
const PLAN = { partner_user_id: 'u1', partner_plan_id: 'p1', amount_usd: '60.00', frequency: 'daily' }
const PRICE_USD = '64000'
/** A sixth of the plan's 60.00: the first of a day's six tranches. */
const FILL = {
  partner_order_id: 'o1',
  status: 'filled',
  usd_amount: '10.00',
  btc_amount: '0.00015625',
  execution_price: PRICE_USD,
}

/** In the order in which they are typed, in one folder and one shell: later ones rely on what earlier ones set. */
export function nextCommands(
  { typed, absolute }: ProgramName,
  { db, cwd }: { db: string; cwd: string },
): NextCommand[] {
  const tranche = db === DATABASE_DEFAULT ? quoted(typed) : onDatabase(quoted(typed), db)
  return [
    { what: 'Serve the API (in a shell of its own)', command: `${tranche} serve` },
    {
      what: 'Add a partner and a key, which is shown only once',
      command: `${tranche} partner create acme --name Acme\nKEY=$(${tranche} key create acme --env test)`,
    },
    {
      what: 'As the partner: link a user who consented, give them a plan',
      command: [
        `TRANCHE_URL=${SERVICE_URL} AUTH="Authorization: Bearer $KEY"`,
        `curl -sS "$TRANCHE_URL/partner/v1/users" -H "$AUTH" -d '${json(USER)}'`,
        `curl -sS "$TRANCHE_URL/partner/v1/plans" -H "$AUTH" -d '${json(PLAN)}'`,
      ].join('\n'),
    },
    {
      what: 'One tick of the scheduler, here with a price given by hand; take what is due',
      command: `${tranche} tick --price ${PRICE_USD}\nDUE=$(curl -sS "$TRANCHE_URL/partner/v1/executions/due" -H "$AUTH"); echo "$DUE"`,
    },
    {
      what: 'Buy it on your venue, then report',
      command: [
        `ID=$(echo "$DUE" | grep -o 'exec_[0-9a-f]*')`,
        `curl -sS "$TRANCHE_URL/partner/v1/executions/$ID/confirm" -H "$AUTH" -d '${json(FILL)}'`,
      ].join('\n'),
    },
    {
      what: 'Have cron run a tick every minute (crontab -e)',
      command: crontab(absolute, isServer(db) ? db : resolve(cwd, db)),
    },
  ]
}

function crontab(program: string, db: string): string {
  const setting = holdsSecret(db) ? `TRANCHE_DB=${shownAddress(db)}\n` : ''
  const tick = `${quoted(program)}${setting ? '' : ` --db ${quoted(db)}`} tick`
  // In a crontab an unescaped percent sign ends the line.
  return `${setting}* * * * * ${tick.replaceAll('%', '\\%')} 2>&1 | logger -t tranche --socket-errors=on`
}

/** One member a line where they would not fit on one of a terminal's. */
const json = (body: object): string =>
  `{\n  ${Object.entries(body)
    .map(([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value)}`)
    .join(',\n  ')}}`
