// backup: a copy of the database, made while it is in use, under the given name or a dated one in a folder.

import { existsSync, lstatSync, readdirSync, rmSync, statSync } from 'node:fs'
import { hostname } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { Command, Option } from 'commander'
import type { JobResult } from '../../core/findings.ts'
import { Problem, reasonInWords, unreadable, usage } from '../../core/problem.ts'
import { counted, visible } from '../../core/text.ts'
import { formatInstant, type Instant, plus } from '../../core/time.ts'
import { refuseFileName } from '../../store/address.ts'
import type { ResultStore } from '../../store/store.ts'
import { nameTaken, refuseDevice } from '../../whole-file.ts'
import { type Cli, databaseOf } from '../context.ts'
import { failureOf } from '../exit-codes.ts'
import { wholeNumber } from '../options.ts'
import { DUE_AGAIN_MS, unlessMoved } from '../service/check.ts'
import { createPing, pingUrl } from '../service/ping.ts'
import { note, print, warn } from '../terminal.ts'
import { copyWatched } from './copy.ts'

type Options = { force?: boolean; keep?: number; ping?: URL }

export function backupCommand(cli: Cli): Command {
  return new Command('backup')
    .description(
      'copy the database to a file while it is in use; the copy is checked before it gets its name',
    )
    .argument('<file>', 'the file to write, or a folder for a file named by the date')
    .option('--force', 'replace the file if it exists')
    .addOption(
      new Option(
        '--keep <number>',
        'in a folder: keep this many of the newest, remove older ones, and let status watch them',
      )
        .argParser(wholeNumber(1, 100_000))
        .conflicts('force'),
    )
    .addOption(
      new Option('--ping <url>', 'call this URL after the backup; URL/fail with the reason if it failed')
        .env('TRANCHE_BACKUP_PING_URL')
        .argParser(pingUrl),
    )
    .action(async (place: string, options: Options) => {
      const ping = createPing(options.ping, (message) => warn(cli, message))
      try {
        await rememberMade(cli, await backUp(cli, place, options), options)
      } catch (error) {
        // A wrong command line never became a job, so no failed job needs fixing.
        if (error instanceof Problem && error.code === 'usage') throw error
        const { message } = failureOf(error)
        if (isJob(options)) await rememberFailed(cli, place, message)
        await ping(message)
        throw error
      }
      await ping(null)
    })
}

/** Without --keep, a backup is made by a person, who has promised no further ones. */
const isJob = ({ keep }: Options): boolean => keep !== undefined

/** A backup without --keep counts as the job's newest where it is in the job's folder: a finding had asked for it. */
async function rememberMade(cli: Cli, file: string, options: Options): Promise<void> {
  const path = resolve(file)
  const folder = dirname(path)
  const host = (await cli.database()).asFile ? null : hostname()
  const isOfJob = async (store: ResultStore) =>
    isJob(options) ||
    (OWN_NAME.test(basename(path)) && (await store.findResult('backup', ''))?.backups?.folder === folder)
  await remember(cli, isOfJob, {
    ok: true,
    message: host === null ? path : `${path} on ${host}`,
    backups: { folder, newest: { file: path, host } },
  })
}

function rememberFailed(cli: Cli, place: string, reason: string): Promise<void> {
  const folder = resolve(place)
  const message = `${folder}: ${reason}`
  return remember(cli, async () => true, { ok: false, message, backups: { folder, newest: null } })
}

/** For `status` and the metrics. A backup whose result cannot be recorded is still valid. */
async function remember(
  cli: Cli,
  isOfJob: (store: ResultStore) => Promise<boolean>,
  result: Pick<JobResult, 'ok' | 'message' | 'backups'>,
): Promise<void> {
  const noted = cli.withStore(async (store) => {
    if (!(await isOfJob(store))) return
    const endsAt = plus((await store.readClock()).now, DUE_AGAIN_MS)
    await store.noteResult({ job: 'backup', host: '', endsAt, ...result })
  })
  await unlessMoved(cli, 'backup', noted)
}

async function backUp(cli: Cli, place: string, { force = false, keep }: Options): Promise<string> {
  const folder = folderIn(place, keep !== undefined)
  const { file, bytes } =
    folder === null
      ? { file: place, ...(await makeCopy(cli, place, force)) }
      : await makeDated(folder, cli.machine.clock(), (copy) => makeCopy(cli, copy, false))
  // The new one is complete and checked by now.
  const removed = folder === null || keep === undefined ? [] : removeOlder(cli, { folder, keep, file })
  const json = { file, bytes, ...(keep !== undefined && { removed }) }
  print(cli, json, () => visible(`${json.file} ${json.bytes} bytes`))
  if (removed.length > 0) note(cli, `${counted(removed.length, 'older backup')} removed.`)
  return file
}

async function makeCopy(cli: Cli, copy: string, replace: boolean): Promise<{ bytes: number | null }> {
  refuseFileName(copy)
  const database = await cli.database()
  if (database.asFile) return database.asFile.backUp(copy, { replace })
  refuseDevice(copy)
  if (!replace && existsSync(copy)) throw nameTaken(copy)
  const to = await databaseOf(copy, cli.machine)
  return copyWatched(cli, { from: database, to }, { seal: null, replace, kind: 'backup' })
}

/**
 * The place if it is a folder; null for a file, unless a folder is needed. Throws file_not_found for a missing folder:
 * with --keep every name is meant as a folder unless it looks like a database. Throws usage for another file.
 */
function folderIn(place: string, isNeeded: boolean): string | null {
  try {
    if (statSync(place).isDirectory()) return place
  } catch (error) {
    const isMeant = place.endsWith('/') || (isNeeded && !place.endsWith('.db'))
    const problem = unreadable(place, error)
    if (isMeant && problem.code === 'file_not_found')
      throw new Problem('file_not_found', `There is no folder ${place}.`)
    if (isMeant) throw problem
  }
  if (isNeeded) throw usage(`--keep needs a folder, and ${place} is not one.`)
  return null
}

// Backups in a folder: named by their time, so that their names sort as they were made.

const nameAt = (at: Instant): string =>
  `tranche-${formatInstant(at)
    .replace(/\.\d+Z$/, 'Z')
    .replace(/[-:]/g, '')}.db`
const OWN_NAME = /^tranche-\d{8}T\d{6}Z\.db$/

/** A folder can be given twice within a second, and a clock can be set back to a second that has a backup. */
const NAMES_TRIED = 10

/** Makes a backup under the first free name, from that of the present second on. Throws file_exists. */
async function makeDated<T>(
  folder: string,
  now: Instant,
  make: (file: string) => Promise<T>,
): Promise<T & { file: string }> {
  for (let second = 0; second < NAMES_TRIED; second++) {
    const file = join(folder, nameAt(plus(now, second * 1_000)))
    try {
      return { file, ...(await make(file)) }
    } catch (error) {
      if (!(error instanceof Problem && error.code === 'file_exists')) throw error
    }
  }
  throw new Problem(
    'file_exists',
    `In ${folder} the names of this second and of the next ${NAMES_TRIED - 1} are taken: try again.`,
  )
}

/** Other files in the folder stay, and so does the backup that was just made, even if the clock has gone back. */
function removeOlder(
  cli: Cli,
  { folder, keep, file }: { folder: string; keep: number; file: string },
): string[] {
  const others = readdirSync(folder)
    .filter((name) => OWN_NAME.test(name) && lstatSync(join(folder, name)).isFile())
    .map((name) => join(folder, name))
    .filter((name) => name !== file)
    .sort()
  return others.slice(0, Math.max(0, others.length - (keep - 1))).filter((name) => {
    try {
      rmSync(name)
      return true
    } catch (error) {
      warn(cli, `${name} could not be removed: ${reasonInWords(error)}`)
      return false
    }
  })
}
