// The scheduler of the jobs: what this machine has, what runs them already, and what may be asked for instead.

import { accessSync, constants, existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { Problem } from '../../core/problem.ts'
import { UNITS } from '../installed.ts'
import type { Place } from './places.ts'

export type Scheduler = 'systemd' | 'cron' | 'none'

/** The jobs of root with cron. */
export const CRON_TABLE = '/etc/cron.d/tranche'

/** What root's jobs are installed for already. */
export const installedSchedulers = (): readonly Scheduler[] => [
  ...(existsSync(`${UNITS}/tranche.service`) ? (['systemd'] as const) : []),
  ...(existsSync(CRON_TABLE) ? (['cron'] as const) : []),
]

/** What runs root's jobs unless something else is asked for: what does already, or else what the machine has. */
export const usualScheduler = (): Scheduler =>
  installedSchedulers().join() === 'cron' ? 'cron' : schedulerOfMachine()

/**
 * What runs the jobs of a place. Throws usage where systemd was asked for and cannot be had, and where the jobs are
 * installed for the other one: two serves would want one port, and two backups a night halve what is kept of them.
 */
export function schedulerFor({ user }: Place, asked: Scheduler | undefined): Scheduler {
  const ofMachine = schedulerOfMachine()
  const scheduler = asked ?? (user === null ? 'none' : usualScheduler())
  if (scheduler === 'systemd' && user === null)
    throw new Problem('usage', 'Only root installs units; --scheduler cron uses a crontab of your own.')
  if (scheduler === 'systemd' && ofMachine !== 'systemd')
    throw new Problem('usage', 'systemd does not run this machine: choose --scheduler cron or none.')
  const [present, ...more] = installedSchedulers()
  if (user === null || scheduler === 'none' || more.length > 0) return scheduler
  if (scheduler === 'systemd' && present === 'cron')
    throw new Problem(
      'usage',
      `The jobs are in ${CRON_TABLE}: take them away with \`tranche init --undo\`, stop the serve of your supervisor, then run init again.`,
    )
  // Units on a machine that systemd does not run are in nobody's way.
  if (scheduler === 'cron' && present === 'systemd' && ofMachine === 'systemd')
    throw new Problem(
      'usage',
      'The jobs are units of systemd: take them away with `tranche init --undo`, then run init again.',
    )
  return scheduler
}

/** What the machine runs jobs with: systemd if it was booted with it, otherwise cron if that is installed. */
export function schedulerOfMachine(): Scheduler {
  if (existsSync('/run/systemd/system')) return 'systemd'
  return isOnPath('cron') || isOnPath('crond') ? 'cron' : 'none'
}

export const isOnPath = (name: string): boolean =>
  [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/sbin'].some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK)
      return true
    } catch {
      return false
    }
  })
