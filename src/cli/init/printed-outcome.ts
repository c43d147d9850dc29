// What init prints: what it did, how to undo it, what comes next and, last of all, the key.

import { existsSync } from 'node:fs'
import { crontabLines } from './crontab-step.ts'
import type { Trial } from './feed-trial.ts'
import { feedWords } from './feed-trial.ts'
import type { FirstPartner, IssuedKey } from './first-partner.ts'
import type { Place } from './install-places.ts'
import { isOnPath, type Scheduler } from './machine-scheduler.ts'
import type { Taken } from './step.ts'

export type Outcome = {
  place: Place
  scheduler: Scheduler
  trial: Trial
  taken: readonly Taken[]
  partner: FirstPartner | null
  /** Null when there is no first partner to create, or it was not requested. */
  first: { made: boolean; key: IssuedKey | null } | null
}

/** The steps, and the commands that undo those that were done, the last one first. */
export function stepLines(taken: readonly Taken[]): string[] {
  const undo = taken.flatMap((step) => step.undo ?? []).reverse()
  return [
    ...taken.map(({ state, what }) => `${state.padEnd(8)} ${what}`),
    ...(undo.length > 0 ? ['', 'To undo this, run from top to bottom:', ...undo.map(indented)] : []),
  ]
}

const indented = (line: string): string => `  ${line}`

/** Everything, as a person reads it; the key alone on the last line. */
export function reportLines({ place, scheduler, trial, taken, partner, first }: Outcome): string[] {
  const key = first?.key
  return [
    ...stepLines(taken),
    '',
    feedWords(trial),
    ...jobLines(place, scheduler),
    '',
    'For every other command, first load the settings into the shell:',
    indented(`set -a; . ${place.settings}; set +a`),
    indented(`${asUser(place)}${place.program} status`),
    ...(partner ? ['', first ? partnerWords(partner, first) : dryWords(partner)] : []),
    ...(key ? [key.key] : []),
  ]
}

const asUser = ({ user }: Place): string => (user === null ? '' : `runuser -u ${user} -- `)

/** A command line that runs the installed program with its settings, whatever the shell has loaded. */
export const onInstalled = (place: Place, words: string): string =>
  `${asUser(place)}sh -c 'set -a; . ${place.settings}; exec ${place.program} ${words}'`

/** What is left for the operator to do: a supervisor for serve, and the ticks unless something already runs them. */
function jobLines(place: Place, scheduler: Scheduler): string[] {
  const serve = (more: string): string => onInstalled(place, `serve --no-create${more}`)
  if (scheduler === 'systemd')
    return ['', 'The service answers, and systemd runs the ticks and backups: journalctl -u tranche']
  if (scheduler === 'cron')
    return [
      '',
      'Cron runs the ticks, checks and backups. Let a supervisor run the service:',
      indented(serve('')),
    ]
  const alone = [
    '',
    'Let a supervisor run the service, with the ticks inside it:',
    indented(serve(' --tick-every 60s')),
  ]
  if (place.user !== null) return alone
  const lines = crontabLines(place).split('\n').map(indented)
  return [
    ...alone,
    '',
    'Or put these lines into your crontab, as --scheduler cron does, and leave out --tick-every:',
    ...lines,
  ]
}

/** A dry run does not check for them: the program that would do so is not installed yet. */
const dryWords = ({ slug, environment }: FirstPartner): string =>
  `It would make the partner ${slug} unless it is there, and a ${environment} key unless one works.`

function partnerWords(
  { slug, environment }: FirstPartner,
  { made, key }: NonNullable<Outcome['first']>,
): string {
  const partner = made ? `The partner ${slug} was created.` : `The partner ${slug} already existed.`
  if (!key) return `${partner} It has a ${environment} key that works; tranche key create makes another.`
  return `${partner} Its ${environment} key (${key.key_id}), which is not shown again:`
}

/** What would keep the jobs from running, or from being heard. */
export function warningsOf(scheduler: Scheduler): string[] {
  if (scheduler !== 'cron') return []
  const hasCron = isOnPath('cron') || isOnPath('crond')
  const hasLog = existsSync('/dev/log')
  return [
    ...(hasCron ? [] : ['cron is not installed, so nothing runs: apt-get install cron']),
    ...(hasLog
      ? []
      : ['no system log listens on /dev/log, so nobody hears of a job that fails: apt-get install rsyslog']),
  ]
}
