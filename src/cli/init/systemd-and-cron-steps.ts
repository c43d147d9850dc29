// Steps that make the machine run the jobs: systemd units, a file of cron, or a user's own crontab.

import { quoted } from '../../core/shell-word.ts'
import { readDeployed } from '../../resources.ts'
import { isServer } from '../../store/address.ts'
import { fileStep } from './file-steps.ts'
import { type Place, run, type Scheduler, SYSTEM } from './install-places.ts'
import type { Step } from './step.ts'

const UNITS = '/etc/systemd/system'
const CRON_TABLE = '/etc/cron.d/tranche'
const STARTED = ['tranche.service', 'tranche-tick.timer', 'tranche-backup.timer']
const UNIT_NAMES = [...STARTED, 'tranche-tick.service', 'tranche-backup.service']
const [BEGIN, END] = ['# tranche init: begin', '# tranche init: end']

/** A file that is kept gets a name that neither systemd nor cron reads. */
export function jobSteps(place: Place, scheduler: Scheduler): Step[] {
  if (scheduler === 'none') return []
  if (scheduler === 'cron' && place.user === null) return [crontabStep(place)]
  const root = { mode: 0o644, owner: () => ({ uid: 0, gid: 0 }) }
  if (scheduler === 'cron') return [fileStep(CRON_TABLE, jobText('tranche.cron', place), root)]
  return [...UNIT_NAMES.map((name) => fileStep(`${UNITS}/${name}`, jobText(name, place), root)), startStep()]
}

/** A backup of a file needs no network, and gets none; a backup of a server does. */
const [ALONE, CONNECTED] = [
  /^RestrictAddressFamilies=AF_UNIX$/m,
  'RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK',
]

/** A text of deploy/; for a server, without the conditions that are about the file. */
const jobText = (name: string, place: Place): string =>
  !isServer(place.database)
    ? readDeployed(name)
    : readDeployed(name)
        .replace(/^(# Until the first start.*\n)?ConditionPathExists=.*\n/gm, '')
        .replace(ALONE, CONNECTED)

function startStep(): Step {
  return {
    what: `${STARTED.join(', ')}, started now and at each boot`,
    isDone: () => false,
    perform() {
      run('systemctl', ['daemon-reload'])
      run('systemctl', ['enable', '--now', ...STARTED])
    },
    undo: `systemctl disable --now ${STARTED.join(' ')}`,
  }
}

/** A text of deploy/ with the paths of another place. */
export const relocated = (text: string, place: Place): string =>
  (['program', 'settings', 'backups', 'database', 'cache'] as const).reduce(
    (moved, key) => moved.replaceAll(SYSTEM[key], () => quoted(place[key])),
    text,
  )

/** The jobs as lines of a user's own crontab, which has no column for the user. */
export const crontabLines = (place: Place): string =>
  relocated(jobText('tranche.cron', place), place)
    .split('\n')
    .filter((line) => /^[\d*]/.test(line))
    .map((line) => line.replace(` ${SYSTEM.user} {`, ' {'))
    .join('\n')

function crontabStep(place: Place): Step {
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
