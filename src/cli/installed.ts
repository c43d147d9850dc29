// The service installed on this machine: a command that names no database works on its database, with its settings, and
// as its user when root runs it.

import { existsSync, readFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join, resolve } from 'node:path'
import { reasonInWords, usage } from '../core/problem.ts'
import { withPlain } from '../plain-file.ts'
import { INSTALLED, isServer, shownAddress } from '../store/address.ts'
import { onDatabase } from './command.ts'
import { DATABASE_DEFAULT } from './options.ts'

export type Installed = {
  /** A remark, printed once. */
  words: string
  /** The beginning of this user's command lines. */
  self: string
  /** The user for the audit log; null for the user of the process. */
  osUser: string | null
  /** Switches to the user of the service, before its database is opened and after files that the caller names. */
  become: () => void
}

/** The settings and the user of a service that root installs with init. */
export const SERVICE = { settings: INSTALLED.settings, user: 'tranche' }

export const UNITS = '/etc/systemd/system'

/** Commands that open no database, or name it themselves. */
const WITHOUT_DATABASE = new Set([
  'init',
  'demo',
  'backtest',
  'health',
  'docs',
  'openapi',
  'completion',
  'version',
  'help',
  'webhook listen',
  'webhook verify',
])

/**
 * Puts the settings of the installed service into `env`, unless the command line names another database. Null where
 * there is none, or where another is meant. Throws usage where it is not clear which.
 */
export function useInstalled(argv: readonly string[], env: NodeJS.ProcessEnv): Installed | null {
  if (env.TRANCHE_DB !== undefined || !asksForDatabase(argv)) return null
  const isRoot = process.getuid?.() === 0
  for (const file of isRoot ? [SERVICE.settings] : [ownSettings(env), SERVICE.settings]) {
    const settings = readSettings(file)
    const database = settings?.TRANCHE_DB
    if (settings === null || database === undefined) continue
    refuseTwo(database)
    const user = isRoot ? SERVICE.user : null
    const person = env.SUDO_USER ?? 'root'
    for (const [name, value] of Object.entries(settings)) env[name] ??= value
    return {
      words: `using the database ${shownAddress(database)}, named in ${file}${user === null ? '' : `, as the user ${user}`}`,
      self: user !== null && env.SUDO_USER !== undefined ? 'sudo tranche' : 'tranche',
      osUser: user === null ? null : `${person} as ${user}`,
      become: () => user !== null && become(user, env),
    }
  }
  return null
}

/** The beginning of a command line for the database `db` that can be pasted into any shell of this machine. */
export function fromAnyShell(db: string): string {
  for (const [file, self] of [
    [SERVICE.settings, 'sudo tranche'],
    [ownSettings(process.env), 'tranche'],
  ] as const) {
    const named = settingsOrNull(file)?.TRANCHE_DB
    if (named !== undefined && inFull(named) === inFull(db)) return self
  }
  return onDatabase('tranche', inFull(db))
}

/** The URL of the service that systemd starts at boot, if it uses this database and its settings may be read. */
export function serviceBooted(db: string): string | null {
  if (!existsSync('/run/systemd/system') || !existsSync(`${UNITS}/multi-user.target.wants/tranche.service`))
    return null
  const settings = settingsOrNull(SERVICE.settings)
  if (settings?.TRANCHE_DB === undefined || inFull(settings.TRANCHE_DB) !== inFull(db)) return null
  return serviceUrl((name) => settings[name])
}

/** The settings of the service that is installed here, as far as this user may read them. */
export const installedSettings = (env: NodeJS.ProcessEnv): Record<string, string> | null =>
  settingsOrNull(SERVICE.settings) ?? settingsOrNull(ownSettings(env))

/** Nobody can call 0.0.0.0 or ::, so loopback stands for them. */
export function serviceUrl(settingOf: (name: string) => string | undefined): string {
  const host = settingOf('TRANCHE_HOST') ?? '127.0.0.1'
  const target = { '0.0.0.0': '127.0.0.1', '::': '::1' }[host] ?? host
  const scheme = settingOf('TRANCHE_TLS_CERT') === undefined ? 'http' : 'https'
  const port = settingOf('TRANCHE_PORT') ?? '8080'
  return `${scheme}://${target.includes(':') ? `[${target}]` : target}:${port}`
}

const inFull = (db: string): string => (isServer(db) ? db : resolve(db))

/** Whether a command line works on a database, and names none. */
export function asksForDatabase(argv: readonly string[]): boolean {
  if (argv.some((word) => /^(--db(=.*)?|--help|-h|--version)$/.test(word))) return false
  const [command, verb] = argv.filter((word) => !word.startsWith('-'))
  return (
    command !== undefined && !WITHOUT_DATABASE.has(command) && !WITHOUT_DATABASE.has(`${command} ${verb}`)
  )
}

/** The folder of a service that another user than root installs. */
export const ownFolder = ({ XDG_DATA_HOME: data, HOME: home = '' }: NodeJS.ProcessEnv): string =>
  join(data || join(home, '.local/share'), 'tranche')

const ownSettings = (env: NodeJS.ProcessEnv): string => join(ownFolder(env), 'tranche.env')

/** Null where there are none. Throws usage for settings that this user may not read, unless a database is at hand. */
function readSettings(file: string): Record<string, string> | null {
  try {
    return settingsIn(withPlain(file, (descriptor) => readFileSync(descriptor, 'utf8')))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return null
    if (code !== 'EACCES') throw error
    if (existsSync(DATABASE_DEFAULT)) return null
    throw usage(
      `The service installed on this machine has its settings in ${file}, which this user may not read: ` +
        'run the command with `sudo` before it, or name another database with --db.',
    )
  }
}

function settingsOrNull(file: string): Record<string, string> | null {
  try {
    return readSettings(file)
  } catch {
    return null
  }
}

/** The lines NAME=value, as systemd and a shell read them. */
export function settingsIn(text: string): Record<string, string> {
  const lines = [...text.matchAll(/^(TRANCHE_[A-Z_]+)=(.*)$/gm)]
  return Object.fromEntries(lines.map(([, name = '', value = '']) => [name, unquoted(value.trim())]))
}

const unquoted = (value: string): string =>
  value.replace(/'([^']*)'|"([^"]*)"|\\(.)/g, (_, single, double, escaped) => single ?? double ?? escaped)

/** Throws usage when the folder has a database of its own, which a command without a name has always used. */
function refuseTwo(database: string): void {
  const here = resolve(DATABASE_DEFAULT)
  if (!existsSync(here) || here === inFull(database)) return
  throw usage(
    `There is a ${DATABASE_DEFAULT} in this folder, and the service installed on this machine has ${shownAddress(database)}: ` +
      'name the one you mean with --db.',
  )
}

/** The service could not open files that root would leave beside a database. */
function become(user: string, env: NodeJS.ProcessEnv): void {
  if (INSTALLED.became !== null) return
  try {
    // @types/node does not declare it.
    ;(process as { initgroups?: (user: string, group: string) => void }).initgroups?.(user, user)
    process.setgid?.(user)
    process.setuid?.(user)
  } catch (error) {
    throw usage(
      `The service installed on this machine runs as ${user}, and this process cannot (${reasonInWords(error)}): ` +
        'name the database with --db.',
    )
  }
  INSTALLED.became = user
  env.HOME = userInfo().homedir
}
