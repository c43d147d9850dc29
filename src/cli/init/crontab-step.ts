// The jobs in a user's own crontab: their lines, between two marks, beside whatever else is in it.

import { jobText, relocated } from './deployed-texts.ts'
import { type Place, SYSTEM } from './install-places.ts'
import { run } from './run-installed.ts'
import type { Step } from './step.ts'

const [BEGIN, END] = ['# tranche init: begin', '# tranche init: end']

/** The jobs as lines of a user's own crontab, which has no column for the user. */
export const crontabLines = (place: Place): string =>
  relocated(jobText('tranche.cron', place), place)
    .split('\n')
    .filter((line) => /^[\d*]/.test(line))
    .map((line) => line.replace(` ${SYSTEM.user} {`, ' {'))
    .join('\n')

export function crontabStep(place: Place): Step {
  const block = `${BEGIN}\n${crontabLines(place)}\n${END}\n`
  const others = (text: string): string => {
    const left = text.replace(new RegExp(`${BEGIN}\n[\\s\\S]*?${END}\n`), '')
    return left === '' || left.endsWith('\n') ? left : `${left}\n`
  }
  return {
    what: 'the jobs in your crontab',
    isDone: () => currentCrontab().includes(block),
    perform() {
      run('crontab', ['-'], others(currentCrontab()) + block)
    },
    undo: `crontab -l | sed '/^${BEGIN}$/,/^${END}$/d' | crontab -`,
  }
}

function currentCrontab(): string {
  try {
    return run('crontab', ['-l'])
  } catch (error) {
    // Nothing else may be taken for an empty crontab, which the new one would replace.
    if (/\bno crontab for\b/.test((error as Error).message)) return ''
    throw error
  }
}
