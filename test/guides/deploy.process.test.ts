// The files of deploy/ for systemd, cron and Docker.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { makeCertificate } from '../support/certificate.ts'
import { temporaryFolder } from '../support/database.ts'
import { hasOwnMachine, outOfOwnMachine, SYSLOG } from '../support/machines.ts'
import { blocksOf } from '../support/samples.ts'
import { hasTool } from '../support/tools.ts'

const FOLDER = join(import.meta.dirname, '../../deploy')
const INSTALLED = '/usr/local/bin/tranche'
const read = (name: string): string => readFileSync(join(FOLDER, name), 'utf8')
const units = globSync('*.{service,timer}', { cwd: FOLDER }).sort()
const services = units.filter((name) => name.endsWith('.service'))

/** The settings of a unit, by name: a name may come more than once. */
const settings = (name: string): string[] =>
  read(name)
    .split('\n')
    .filter((line) => /^[A-Z]\w+=/.test(line))

const runs = (file: string, argv: string[]) => spawnSync(file, argv, { encoding: 'utf8' })

test('every unit of the jobs is there, and each timer has its service', () => {
  const named = ['-backup', '-check', '-offsite', '-tick', ''].map((end) => `tranche${end}.service`)
  assert.deepEqual(services, named)
  for (const timer of units.filter((name) => name.endsWith('.timer')))
    assert.ok(services.includes(timer.replace('.timer', '.service')), timer)
})

test('all services are one user on one folder and database, closed in to the same degree', () => {
  const walls = (name: string): string[] =>
    settings(name).filter((line) =>
      /^(NoNew|Protect|Private|Restrict|Lock|Limit|Capability|System|UMask)/.test(line),
    )
  const expected = walls('tranche.service')
  for (const wall of ['LimitCORE=0', 'NoNewPrivileges=yes', 'ProtectSystem=strict', 'CapabilityBoundingSet='])
    assert.ok(expected.includes(wall), wall)
  for (const name of services) {
    const lines = settings(name)
    for (const line of ['User=tranche', 'Group=tranche', 'EnvironmentFile=/etc/tranche/tranche.env'])
      assert.ok(lines.includes(line), `${name}: ${line}`)
    assert.match(lines.join('\n'), /^StateDirectory=tranche( |$)/m, name)
    assert.deepEqual(walls(name), expected, name)
  }
})

test('systemd understands the units', (t) => {
  if (!hasTool(t, 'systemd-analyze')) return
  const folder = temporaryFolder(t)
  // It requires the program at the unit's path, and on this machine it need not be installed.
  const copies = units.map((name) => {
    const copy = join(folder, name)
    writeFileSync(copy, read(name).replaceAll(INSTALLED, process.execPath))
    return copy
  })
  const verified = runs('systemd-analyze', ['verify', '--man=no', ...copies])
  const ours = new RegExp(units.map((name) => name.replaceAll('.', '\\.')).join('|'))
  const complaints = verified.stderr.split('\n').filter((line) => ours.test(line))
  assert.deepEqual([verified.status, complaints], [0, []])
})

test('the shell blocks put the service on a machine, with the units as systemd understands them', async (t) => {
  if (!hasOwnMachine(t) || !hasTool(t, 'systemd-analyze') || !hasTool(t, 'rsyslogd')) return
  const root = join(FOLDER, '..')
  const [init = '', check = '', install = '', ...more] = blocksOf(read('README.md'), 'sh')
  assert.deepEqual(more, [])
  // Then systemd seems to run the machine: init says that it does not when the files are there.
  const script = `${SYSLOG}
    (cd ${root} && ${install})
    cd ${root}/dist
    "$TRANCHE" init --scheduler systemd 2>&1 && exit 9
    mkdir -p /run/systemd/system
    "$TRANCHE" init 2>&1 && exit 9
    rmdir /run/systemd/system
    systemd-analyze verify --man=no /etc/systemd/system/tranche* 2>&1 | grep tranche || echo understood
    ${init}
    ${check}`
  const out = await outOfOwnMachine(t, script)
  assert.match(
    out,
    /^tranche: OK\n\d+\.\d+\.\d+\nerror: systemd does not run this machine: .*\nalready {2}\/usr\/local\/bin\/tranche/,
  )
  assert.match(out, /^done {5}\/etc\/systemd\/system\/tranche\.service\n/m)
  assert.match(out, /^error: systemctl daemon-reload: .*\nunderstood\n/m)
  assert.match(out, /sse_test_\w+\nok\n$/)
})

/** A file of ours as compose understands it. Cached: each start of compose takes a third of a second. */
const understood = new Map<string, string>()
function composed(name: string): string {
  const known = understood.get(name)
  if (known !== undefined) return known
  const { status, stdout, stderr } = runs('docker-compose', ['-f', join(FOLDER, name), 'config'])
  assert.deepEqual([status, stderr], [0, ''])
  understood.set(name, stdout)
  return stdout
}

test('compose understands its file, which closes the container in as the line by hand does', (t) => {
  if (!hasTool(t, 'docker-compose')) return
  const stdout = composed('compose.yaml')
  const byHand = /^docker run [\s\S]*?tranche$/m.exec(read('README.md'))?.[0] ?? ''
  const SAME: [flag: string, setting: RegExp][] = [
    ['--name tranche ', /container_name: tranche$/m],
    ['--restart unless-stopped', /restart: unless-stopped$/m],
    ['--stop-timeout 40 ', /stop_grace_period: 40s$/m],
    ['--read-only ', /read_only: true$/m],
    ['--tmpfs /tmp ', /tmpfs:\s+- \/tmp$/m],
    ['--cap-drop ALL ', /cap_drop:\s+- ALL$/m],
    ['--security-opt no-new-privileges ', /security_opt:\s+- no-new-privileges:true$/m],
    ['--ulimit core=0 ', /ulimits:\s+core: 0$/m],
    ['-v tranche:/var/lib/tranche ', /data:\/var\/lib\/tranche:rw$[\s\S]*data:\s+name: tranche$/m],
    ['-v tranche-cache:/var/cache/tranche ', /cache:\/var\/cache\/tranche:rw$[\s\S]*name: tranche-cache$/m],
    ['-p 127.0.0.1:8080:8080 ', /ports:\s+- 127\.0\.0\.1:8080:8080(\/tcp)?$/m],
    ['-e TRANCHE_PRICE_FEED=', /TRANCHE_PRICE_FEED: null$/m],
  ]
  for (const [flag, setting] of SAME) {
    assert.ok(byHand.includes(flag), flag)
    assert.match(stdout, setting)
  }
})

test('compose understands the file with two of everything, whose secrets are files', (t) => {
  if (!hasTool(t, 'docker-compose')) return
  const stdout = composed('compose.postgres.yaml')
  const services = stdout.split(/^services:$/m)[1]?.split(/^\S/m)[0] ?? ''
  const named = [...services.matchAll(/^ {2}([\w-]+):$/gm)].map(([, name]) => name)
  assert.deepEqual(named, ['db-a', 'db-b', 'proxy', 'serve-a', 'serve-b', 'tick-a', 'tick-b'])
  const ofService = (name: string) => services.split(`\n  ${name}:\n`)[1]?.split(/\n {2}\S/)[0] ?? ''
  const single = composed('compose.yaml')
  for (const name of ['serve-a', 'serve-b', 'tick-a', 'tick-b']) {
    assert.match(ofService(name), /--no-create/)
    assert.equal(/--tick-every/.test(ofService(name)), name.startsWith('tick'), name)
    // Restricted like the unit that works on a file.
    const walls = [/cap_drop:\s+- ALL$/m, /read_only: true$/m, /no-new-privileges:true$/m, /core: 0$/m]
    for (const wall of walls) {
      assert.match(single, wall)
      assert.match(ofService(name), wall, name)
    }
  }
  assert.doesNotMatch(stdout, /PASSWORD: |postgres:\/\/\w+:/)
  // Names that the proxy looks up once: each is that of a service, at a fixed address.
  const asked = [...read('postgres/haproxy.cfg').matchAll(/^ {4}server [ab] ([\w-]+):\d+$/gm)].map(
    ([, name = '']) => name,
  )
  assert.equal(asked.length, 6)
  for (const name of asked) assert.match(ofService(name), /ipv4_address: 172\.28\.87\.\d+$/m, name)
})

test('the proxy asks a server what its words say, and understands its file', (t) => {
  const text = (bytes: Buffer) => bytes.toString('latin1')
  const sent = [...read('postgres/haproxy.cfg').matchAll(/send-binary (\w+)/g)].map(([, hex = '']) =>
    Buffer.from(hex, 'hex'),
  )
  const [start, question, bye] = sent as [Buffer, Buffer, Buffer]
  assert.equal(start.readUInt32BE(0), start.length)
  assert.equal(text(start.subarray(8)), 'user\0haproxy\0database\0postgres\0\0')
  assert.equal(question.readUInt32BE(1), question.length - 1)
  assert.equal(text(question), `Q${text(question.subarray(1, 5))}select pg_is_in_recovery()\0`)
  assert.equal(text(bye), 'X\0\0\0\u0004')
  if (!hasTool(t, 'haproxy')) return
  const folder = temporaryFolder(t)
  const { cert, key } = makeCertificate()
  writeFileSync(join(folder, 'tranche.pem'), cert + key)
  const config = read('postgres/haproxy.cfg')
    .replace('/etc/haproxy/tranche.pem', join(folder, 'tranche.pem'))
    .replace(/\b(db|serve)-[ab]:/g, '127.0.0.1:')
  writeFileSync(join(folder, 'haproxy.cfg'), config)
  const { status, stdout, stderr } = runs('haproxy', ['-c', '-f', join(folder, 'haproxy.cfg')])
  assert.deepEqual([status, stderr], [0, ''], stdout)
})

test('the image runs the executable alone, as nobody in particular, and asks it how it is', () => {
  const lines = read('Dockerfile').replaceAll('\\\n', ' ').split('\n')
  const only = (word: string): string => {
    const found = lines.filter((line) => line.startsWith(`${word} `))
    assert.equal(found.length, 1, word)
    return found[0] ?? ''
  }
  assert.match(only('USER'), /^USER [1-9]\d*:[1-9]\d*$/)
  assert.match(only('HEALTHCHECK'), /CMD \["tranche", "health"\]$/)
  assert.equal(only('ENTRYPOINT'), 'ENTRYPOINT ["tranche"]')
  only('FROM')
  // Podman drops the image's, so each compose file has its own, equal one.
  const [, every, within, start, times] =
    /--interval=(\w+) --timeout=(\w+) --start-period=(\w+) --retries=(\d+) /.exec(only('HEALTHCHECK')) ?? []
  const check = [`interval: ${every}`, `timeout: ${within}`, `start_period: ${start}`, `retries: ${times}`]
  for (const name of ['compose.yaml', 'compose.postgres.yaml'])
    for (const setting of ['test: [CMD, tranche, health]', ...check])
      assert.ok(read(name).includes(setting), `${name}: ${setting}`)
})
