// The scheduler of the jobs: what this machine has, and what may be asked for instead.

import { accessSync, constants, existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { Problem } from '../../core/problem.ts'
import type { Place } from './places.ts'

export type Scheduler = 'systemd' | 'cron' | 'none'

/**
 * What runs the jobs of a place: what was asked for, or for root what the machine has. Throws usage where systemd was
 * asked for and cannot be had.
 */
export function schedulerFor({ user }: Place, asked: Scheduler | undefined): Scheduler {
  const ofMachine = schedulerOfMachine()
  const scheduler = asked ?? (user === null ? 'none' : ofMachine)
  if (scheduler === 'systemd' && user === null)
    throw new Problem('usage', 'Only root installs units; --scheduler cron uses a crontab of your own.')
  if (scheduler === 'systemd' && ofMachine !== 'systemd')
    throw new Problem('usage', 'systemd does not run this machine: choose --scheduler cron or none.')
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
