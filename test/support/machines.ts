// A machine of its own for a test that makes users, crontabs and files in /etc: a root shell in namespaces, where every
// folder it writes to is a mount of its own and no network leads out. When the shell ends, every process that it has
// started ends with it.

import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { acquireLock } from '../../src/store/sqlite/file/locks.ts'
import { temporaryFolder } from './database.ts'
import { EXECUTABLE } from './process.ts'
import { hasTool } from './tools.ts'

const UNSHARE = ['--mount', '--net', '--pid', '--fork', '--mount-proc', '--kill-child']

/**
 * Its own /etc is a copy; its own /dev has the usual devices, without the host's log socket. The executable is where
 * every user may run it: a checkout may be in a folder of root's.
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

/** A system log, written to /var/log/syslog. */
export const SYSLOG = `
printf '%s\\n' 'module(load="imuxsock")' '*.* action(type="omfile" file="/var/log/syslog")' > /etc/rsyslog.conf
rsyslogd
until [ -S /dev/log ]; do sleep 0.05; done
`

/** Changes to a folder with the executable that only root may enter, like root's home. */
export const IN_HOME = `
mkdir -m 0700 /mnt/copied && cd /mnt/copied && ln -s "$TRANCHE" tranche
`

/** A PostgreSQL server as Debian's package leaves it. */
export const SERVER = `
V=$(ls /usr/lib/postgresql | sort -n | tail -1)
rm -rf /etc/postgresql/*
mkdir -p /var/lib/postgresql /var/log/postgresql /run/postgresql
chown postgres: /var/lib/postgresql /var/log/postgresql /run/postgresql
ip link set lo up
pg_createcluster $V main -- --no-sync > /dev/null
pg_ctlcluster $V main start
`

/** Whether the test can run: as root, where the system permits it. */
export function hasOwnMachine(t: TestContext): boolean {
  if (spawnSync('unshare', [...UNSHARE, 'true']).status === 0) return true
  assert.ok(!process.env.CI, 'CI must let root make namespaces')
  t.diagnostic('NOT TESTED: only root makes a machine of its own')
  return false
}

/** Runs a script that must succeed without a complaint, as onOwnMachine does; answers its output. */
export async function outOfOwnMachine(t: Pick<TestContext, 'after'>, script: string): Promise<string> {
  const { code, out, err } = await onOwnMachine(t, script)
  assert.deepEqual([code, err], [0, ''], out)
  return out
}

/** Runs a script in bash that stops at the first failure. TRANCHE is the path of the executable. */
export async function onOwnMachine(
  t: Pick<TestContext, 'after'>,
  script: string,
): Promise<{ code: number | null; out: string; err: string }> {
  const env = { PATH: PATHS, TRANCHE: EXECUTABLE, HOME: '/home', LANG: 'C.UTF-8' }
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

// Two machines on one network: each is a root shell in namespaces of its own, with its own disk, processes and
// addresses. A machine that loses its power loses everything but its disk.

export type Machine = {
  /** Runs a script in bash as root, in a folder with the executable and the given files; returns its output. */
  run: (script: string) => Promise<string>
  /** Starts a script, which ends with the machine. */
  start: (script: string) => ChildProcess
  /** The prefix of a program's command line on this machine. */
  enter: readonly [string, ...string[]]
  /** Ends everything on it at once. */
  cutPower: () => Promise<void>
}

const OWN = ['/etc', '/home', '/usr/local/bin', '/usr/local/share', '/var/cache', '/var/lib', '/var/log']

/** Its folders are on its disk; of the real ones only /etc is copied. */
const setUp = (name: 'a' | 'b', disk: string, given: string): string => `
for folder in ${OWN.join(' ')}; do
  mine=${disk}/$(echo $folder | tr / _)
  [ -e $mine ] || if [ $folder = /etc ]; then cp -a /etc $mine; rm -rf $mine/postgresql/* $mine/cron.d/*; else mkdir -m 755 $mine; fi
  mount --bind $mine $folder
done
mount -t tmpfs -o mode=755 none /run
mount -t tmpfs -o mode=755 none /mnt
mkdir -p /run/lock /mnt/here /var/lib/postgresql /var/log/postgresql /var/cache/tranche
chown postgres: /var/lib/postgresql /var/log/postgresql
mkdir -m 2775 /run/postgresql && chown postgres: /run/postgresql
: > /mnt/here/tranche && mount --bind ${EXECUTABLE} /mnt/here/tranche
cp -r ${given} /mnt/here/
ip link set lo up
ip link add nic type veth peer name wall
ip link set wall up
ip address add ${ADDRESSES[name]}/24 dev nic
ip link set nic up
# What a server leaves there in a power cut goes with it.
mount -t tmpfs none /dev/shm
touch /run/ready
exec cat > /dev/null`

/** Each of them has a copy of the folder `given`. */
export async function twoMachines(
  t: TestContext,
  given: string,
): Promise<{ boot: (name: 'a' | 'b') => Promise<Machine> }> {
  const disks = temporaryFolder(t)
  const running = new Map<string, { pid: string; off: () => Promise<void> }>()
  t.after(async () => {
    for (const { off } of running.values()) await off()
  })

  async function boot(name: 'a' | 'b'): Promise<Machine> {
    const disk = join(disks, name)
    mkdirSync(disk, { recursive: true })
    const shell = spawn('unshare', [...UNSHARE, 'bash', '-euc', setUp(name, disk, given)], {
      // The machine ends with this input, which ends with this process.
      stdio: ['pipe', 'ignore', 'pipe'],
    })
    const gone = once(shell, 'close')
    const pid = await firstProcess(shell)
    // All others end with the first one, and their processor time is counted as that of the test.
    const off = async () => {
      if (shell.exitCode === null && shell.signalCode === null) process.kill(Number(pid), 'SIGKILL')
      await gone
    }
    running.set(name, { pid, off })
    const enter = ['nsenter', '--target', pid, '--mount', '--net', '--pid'] as const
    const start: Machine['start'] = (script) => {
      const [file, ...argv] = enter
      return bashBehind(file, argv, '/home', `cd /mnt/here\n${script}`)
    }
    await wire(running)
    return { run: (script) => finished(start(script), script), start, enter, cutPower: off }
  }
  return { boot }
}

const PATHS = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** A shell behind the program that enters a machine; it stops at the first failure of the script. */
function bashBehind(file: string, argv: readonly string[], home: string, script: string): ChildProcess {
  const bash = spawn(file, [...argv, 'bash', '-euo', 'pipefail'], {
    env: { PATH: PATHS, HOME: home, LANG: 'C.UTF-8' },
    stdio: 'pipe',
  })
  bash.stdin.on('error', () => {}).end(script)
  return bash
}

/** The first process of the machine, which all others end with, once its folders are there. */
async function firstProcess(shell: ChildProcess): Promise<string> {
  let said = ''
  shell.stderr?.setEncoding('utf8').on('data', (part) => (said += part))
  for (;;) {
    assert.equal(shell.exitCode, null, said)
    const pid = readFileSync(`/proc/${shell.pid}/task/${shell.pid}/children`, 'utf8').trim()
    try {
      execFileSync('nsenter', ['--target', pid, '--mount', 'test', '-e', '/run/ready'], { stdio: 'pipe' })
      return pid
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
}

const ADDRESSES = { a: '10.0.0.1', b: '10.0.0.2' } as const

/** A cable between the two. It goes with a machine; packets sent to that one afterwards are lost. */
async function wire(running: ReadonlyMap<string, { pid: string }>): Promise<void> {
  const [a, b] = [running.get('a')?.pid, running.get('b')?.pid]
  if (a === undefined || b === undefined) return
  const cable = `link add cable netns ${a} type veth peer name cable netns ${b}`
  execFileSync('ip', cable.split(' '))
  for (const [pid, other] of [
    [a, ADDRESSES.b],
    [b, ADDRESSES.a],
  ] as const) {
    const inside = `nsenter --target ${pid} --net ip`
    execFileSync('sh', ['-ec', `${inside} link set cable up; ${inside} route add ${other} dev cable`])
  }
}

/** Does not wait for the end of its output: background processes may hold that open. */
async function finished(bash: ChildProcess, script: string): Promise<string> {
  let [out, err] = ['', '']
  bash.stdout?.setEncoding('utf8').on('data', (part) => (out += part))
  bash.stderr?.setEncoding('utf8').on('data', (part) => (err += part))
  const [code] = await once(bash, 'exit')
  assert.equal(code, 0, `${script}\n${out}${err}`)
  return out
}

// A Debian booted by systemd: only there can the effect of units be seen. Its files are made once, and each test has a
// machine of its own on them, whose changes are in memory and vanish with it.

/** In addition to the smallest Debian 12: packages for the units, for the guides on a server, and for the samples. */
const DEBIAN = [
  ...['systemd', 'systemd-sysv', 'dbus', 'libstdc++6', 'libatomic1', 'ca-certificates', 'cron', 'curl'],
  ...['openssl', 'restic', 'sqlite3', 'nodejs', 'python3'],
]
const DEBIAN_FOLDER = join(dirname(EXECUTABLE), '.debian')

/** Makes its files, if nobody has; of several test processes at once, one does. */
export async function debianFolder(): Promise<string> {
  const name = createHash('sha256').update(DEBIAN.join()).digest('hex').slice(0, 8)
  const tree = join(DEBIAN_FOLDER, name)
  mkdirSync(DEBIAN_FOLDER, { recursive: true })
  let release = acquireLock(join(DEBIAN_FOLDER, '.making'))
  for (; release === null; release = acquireLock(join(DEBIAN_FOLDER, '.making'))) await pause(200)
  try {
    if (existsSync(tree)) return tree
    const aside = `${tree}.aside`
    rmSync(aside, { recursive: true, force: true })
    const include = `--include=${DEBIAN.join()}`
    const made = spawnSync('debootstrap', ['--variant=minbase', include, 'bookworm', aside], {
      encoding: 'utf8',
    })
    assert.equal(made.status, 0, `${made.stdout}${made.stderr}`.slice(-2000))
    renameSync(aside, tree)
    return tree
  } finally {
    release()
  }
}

/**
 * Null where this machine cannot boot another: the run says so, and where CI is set that is a failure. `more` are files
 * that it is given, by the names that they have there.
 */
export async function bootedMachine(
  t: TestContext,
  more: Readonly<Record<string, string>> = {},
): Promise<Pick<Machine, 'run'> | null> {
  if (!hasOwnMachine(t) || !hasTool(t, 'debootstrap') || !hasTool(t, 'systemd-nspawn')) return null
  booted += 1
  const name = `tranche-${process.pid}-${booted}`
  const nspawn = spawn(
    'systemd-nspawn',
    [
      '--quiet',
      `--directory=${await debianFolder()}`,
      '--volatile=overlay',
      '--boot',
      '--private-network',
      '--register=no',
      '--keep-unit',
      `--machine=${name}`,
      ...Object.entries({ '/mnt/tranche': EXECUTABLE, ...more }).map(
        ([there, file]) => `--bind-ro=${file}:${there}`,
      ),
    ],
    { stdio: ['ignore', 'pipe', 'pipe'], env: { PATH: PATHS } },
  )
  let said = ''
  for (const stream of [nspawn.stdout, nspawn.stderr])
    stream.setEncoding('utf8').on('data', (part) => (said += part))
  const gone = once(nspawn, 'exit')
  let leader = ''
  t.after(async () => {
    // All of its processes end with the first one.
    if (nspawn.exitCode === null) process.kill(leader === '' ? (nspawn.pid ?? 0) : Number(leader), 'SIGKILL')
    await gone
  })
  for (;;) {
    assert.equal(nspawn.exitCode, null, said)
    const children = readFileSync(`/proc/${nspawn.pid}/task/${nspawn.pid}/children`, 'utf8')
    leader = children.trim().split(' ')[0] ?? ''
    const asked = ['--target', leader, '--all', 'systemctl', 'is-system-running']
    if (leader !== '' && spawnSync('nsenter', asked, { encoding: 'utf8' }).stdout === 'running\n') break
    await pause(100)
  }
  const run: Machine['run'] = (script) => {
    const bash = bashBehind('nsenter', ['--target', leader, '--all'], '/root', `cd /root\n${script}`)
    return finished(bash, script)
  }
  return { run }
}

let booted = 0
