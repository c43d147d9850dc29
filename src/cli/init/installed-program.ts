// The installed program, run as the user of its jobs with their settings; and other programs of the machine.

import { spawn, spawnSync } from 'node:child_process'
import { basename } from 'node:path'
import { text } from 'node:stream/consumers'
import { Problem, reasonInWords } from '../../core/problem.ts'
import { EXIT } from '../exit-codes.ts'
import { serviceUrl, settingsIn } from '../installed.ts'
import { type Ids, readOwn } from './file-steps.ts'
import type { Place } from './places.ts'

/** Runs another program. Throws when it is not there or fails, with what it said. */
export function run(file: string, argv: readonly string[], input = ''): string {
  const { error, status, stdout, stderr } = spawnSync(file, argv, { input, encoding: 'utf8' })
  if (error || status !== 0) {
    const why = error ? reasonInWords(error) : stderr.trim() || `exit code ${status}`
    throw new Problem('storage_failed', `${basename(file)} ${argv.join(' ')}: ${why}`)
  }
  return stdout
}

/** The ids of the user that the jobs run as; null while there is none. */
export function idsOf({ user }: Place): Ids | null {
  if (user === null) return { uid: process.getuid?.() ?? -1, gid: process.getgid?.() ?? -1 }
  const { stdout } = spawnSync('getent', ['passwd', user], { encoding: 'utf8' })
  const [, , uid, gid] = (stdout ?? '').split(':')
  return uid && gid ? { uid: Number(uid), gid: Number(gid) } : null
}

/** The JSON that a command of the installed program prints to the user of the jobs. Throws with its message. */
export function runInstalled(place: Place, argv: readonly string[]): unknown {
  const ended = spawnSync(place.program, [...argv, '--json'], { ...asJobs(place), encoding: 'utf8' })
  return answerOf(place, argv, ended)
}

/** `runInstalled` for a command that writes, and may wait for a server: other work goes on meanwhile. */
export async function runWriting(
  place: Place,
  argv: readonly string[],
  done: number[] = [EXIT.done],
): Promise<unknown> {
  const child = spawn(place.program, [...argv, '--json'], asJobs(place))
  const closed = new Promise<{ error?: Error; status: number | null }>((resolve) => {
    child
      .on('close', (status) => resolve({ status }))
      .on('error', (error) => resolve({ error, status: null }))
  })
  child.stdin.end()
  const [stdout, stderr, ended] = await Promise.all([text(child.stdout), text(child.stderr), closed])
  const isDone = done.some((code) => code === ended.status)
  return answerOf(place, argv, { ...ended, ...(isDone && { status: EXIT.done }), stdout, stderr })
}

const asJobs = (place: Place) => ({
  ...(place.user === null ? {} : (idsOf(place) ?? {})),
  cwd: '/',
  env: {
    PATH: process.env.PATH,
    HOME: place.folder,
    TRANCHE_DB: place.database,
    TRANCHE_CACHE: place.cache,
  },
})

type Ended = { error?: Error; status: number | null; stdout: string; stderr: string }

function answerOf(place: Place, argv: readonly string[], { error, status, stdout, stderr }: Ended): unknown {
  if (error) throw new Problem('storage_failed', `${place.program}: ${reasonInWords(error)}`)
  if (status === 0) return JSON.parse(stdout)
  const last = stderr.trim().split('\n').at(-1) ?? ''
  const { code, message } = last.startsWith('{') ? JSON.parse(last).error : { code: 'failed', message: last }
  throw Object.assign(new Error(`${argv.join(' ')}: ${message}`), { code })
}

export type Answer = { ok: boolean; url: string; answer: string }

export function askService(place: Place): Answer {
  const url = serviceUrl((name) => readSetting(place, name))
  const { stdout } = spawnSync(place.program, ['health', '--url', url, '--json'], {
    ...asJobs(place),
    encoding: 'utf8',
  })
  const answer = stdout ? (JSON.parse(stdout) as Answer) : { ok: false, answer: 'tranche health failed' }
  return { ...answer, url }
}

/** The value of a setting; undefined for one that is not set. Throws bad_file as `readOwn` does. */
export function readSetting({ settings }: Pick<Place, 'settings'>, name: string): string | undefined {
  return settingsIn(readOwn(settings) ?? '')[name]
}
