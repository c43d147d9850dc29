// A machine of its own for a test that makes users, crontabs and files in /etc: a shell of root's in namespaces, where
// every folder it writes to is a mount of its own and no network leads out. When the shell ends, everything it has
// started ends with it.

import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { text } from 'node:stream/consumers'
import type { TestContext } from 'node:test'
import { EXECUTABLE } from './executable.ts'

const UNSHARE = ['--mount', '--net', '--pid', '--fork', '--mount-proc', '--kill-child']

/**
 * Its own /etc is a copy; its own /dev has the usual devices, and the log of nobody else. The executable is where every
 * user may run it: a checkout may be in a folder of root's.
 */
const SETUP = `
mount -t tmpfs none /mnt
mkdir /mnt/bin && : > /mnt/bin/tranche && mount --bind "$TRANCHE" /mnt/bin/tranche && export TRANCHE=/mnt/bin/tranche
cp -a /etc /mnt/etc && mount --bind /mnt/etc /etc
mkdir /mnt/dev && mount --rbind /dev /mnt/dev && mount -t tmpfs -o mode=755 none /dev
for node in null zero full random urandom tty; do : > /dev/$node; mount --bind /mnt/dev/$node /dev/$node; done
mkdir /dev/shm && mount --rbind /mnt/dev/shm /dev/shm
mkdir /dev/pts && mount -t devpts -o newinstance,ptmxmode=666 none /dev/pts && ln -s pts/ptmx /dev/ptmx
ln -s /proc/self/fd /dev/fd
for folder in /home /run /usr/local/bin /usr/local/share /var/cache /var/lib /var/log /var/spool; do mount -t tmpfs -o mode=755 none $folder; done
install -d -g crontab -m 1730 /var/spool/cron/crontabs 2> /dev/null || true
rm -f /etc/cron.d/*
`

/** A log of the system, written to /var/log/syslog. */
export const SYSLOG = `
printf '%s\\n' 'module(load="imuxsock")' '*.* action(type="omfile" file="/var/log/syslog")' > /etc/rsyslog.conf
rsyslogd
until [ -S /dev/log ]; do sleep 0.05; done
`

/** Whether the test can go on: as root, where the system lets it. */
export function hasOwnMachine(t: TestContext): boolean {
  if (spawnSync('unshare', [...UNSHARE, 'true']).status === 0) return true
  assert.ok(!process.env.CI, 'CI must let root make namespaces')
  t.diagnostic('NOT TESTED: only root makes a machine of its own')
  return false
}

/** Runs a script in bash that stops at the first failure. TRANCHE is the path of the executable. */
export async function onOwnMachine(
  t: Pick<TestContext, 'after'>,
  script: string,
): Promise<{ code: number | null; out: string; err: string }> {
  const env = {
    PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    TRANCHE: EXECUTABLE,
    HOME: '/home',
    LANG: 'C.UTF-8',
  }
  const shell = spawn('unshare', [...UNSHARE, 'bash', '-euo', 'pipefail'], {
    env,
    cwd: '/',
    stdio: 'pipe',
    detached: true,
  })
  t.after(() => shell.exitCode ?? shell.kill('SIGKILL'))
  shell.stdin.end(SETUP + script)
  const ended = new Promise<number | null>((resolve) => shell.once('close', resolve))
  const [out, err, code] = await Promise.all([text(shell.stdout), text(shell.stderr), ended])
  return { code, out, err }
}
