// Steps that make the machine run the jobs: systemd units, a file of cron, or a user's own crontab (crontab-step.ts).

import { crontabStep } from './crontab-step.ts'
import { jobText } from './deployed-texts.ts'
import { fileStep } from './file-steps.ts'
import type { Place } from './install-places.ts'
import type { Scheduler } from './machine-scheduler.ts'
import { run } from './run-installed.ts'
import type { Step } from './step.ts'

const UNITS = '/etc/systemd/system'
const CRON_TABLE = '/etc/cron.d/tranche'
const STARTED = ['tranche.service', 'tranche-tick.timer', 'tranche-backup.timer']
const UNIT_NAMES = [...STARTED, 'tranche-tick.service', 'tranche-backup.service']

/** A file that is kept gets a name that neither systemd nor cron reads. */
export function jobSteps(place: Place, scheduler: Scheduler): Step[] {
  if (scheduler === 'none') return []
  if (scheduler === 'cron' && place.user === null) return [crontabStep(place)]
  const root = { mode: 0o644, owner: () => ({ uid: 0, gid: 0 }) }
  if (scheduler === 'cron') return [fileStep(CRON_TABLE, jobText('tranche.cron', place), root)]
  return [...UNIT_NAMES.map((name) => fileStep(`${UNITS}/${name}`, jobText(name, place), root)), startStep()]
}

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
