// The image of deploy/Dockerfile, built and run with Podman from the files that the executable writes.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../support/database.ts'
import { debianFolder, hasOwnMachine } from '../support/machines.ts'
import { CACHE, EXECUTABLE } from '../support/process.ts'
import { blocksOf } from '../support/samples.ts'
import { hasTool } from '../support/tools.ts'
import { freePort } from '../support/within.ts'

/** Its own images, containers and volumes, separate from the machine's. */
const settings = (folder: string): string => `[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
volume_path = "${folder}/volumes"
`

/**
 * The guide's docker command. No base image is fetched, and on a machine that may not raise its limits Podman may not
 * either. Its messages go to a file, since the processes it leaves running hold its stderr open.
 */
const DOCKER = `
podmans() { podman --root "$PWD/root" --runroot "$PWD/run" "$@" 2>> said; }
docker() {
  local verb=$1; shift
  case $verb in
    build) podmans build --network host --pull=never $FORMAT "$@" > built ;;
    run) podmans run --ulimit nofile=1024:4096 --ulimit nproc=1024:4096 "$@" ;;
    *) podmans "$verb" "$@" ;;
  esac
}
`

test('the image is built from what the executable writes, runs as the guide says, and knows whether it is well', async (t) => {
  if (!hasOwnMachine(t)) return
  for (const tool of ['podman', 'runc', 'iptables', 'debootstrap'] as const) if (!hasTool(t, tool)) return
  const folder = temporaryFolder(t)
  const bash = (script: string, FORMAT = '') => {
    const env = { ...process.env, ...CACHE, FORMAT, CONTAINERS_CONF: join(folder, 'containers.conf') }
    const ended = spawnSync('bash', ['-euo', 'pipefail', '-c', DOCKER + script], {
      // Podman would read a script on stdin.
      stdio: ['ignore', 'pipe', 'pipe'],
      cwd: folder,
      env,
      encoding: 'utf8',
      timeout: 120_000,
    })
    const said = readFileSync(join(folder, 'said'), 'utf8')
    return { code: ended.status, out: ended.stdout, err: ended.stderr + said }
  }
  t.after(() => bash('docker rm --force --all --time 0 > rest; docker rmi --force --all > rest; rm -rf run'))
  writeFileSync(join(folder, 'containers.conf'), settings(folder))
  assert.equal(spawnSync(EXECUTABLE, ['docs', '--deploy', 'deploy'], { cwd: folder, env: CACHE }).status, 0)
  mkdirSync(join(folder, 'dist'))
  for (const name of ['tranche', 'LICENSES.txt'])
    copyFileSync(join(dirname(EXECUTABLE), name), join(folder, 'dist', name))
  const guide = readFileSync(join(folder, 'deploy/README.md'), 'utf8')
  const byHand = blocksOf(guide, 'text').find((block) => block.startsWith('docker build'))
  assert.ok(byHand)
  const port = await freePort()
  const lines = byHand.replace('127.0.0.1:8080', `127.0.0.1:${port}`).replace('=median', '=static:60000')

  const base = `tar -C ${await debianFolder()} -c . | docker import - docker.io/library/debian:trixie-slim > rest`
  const plain = bash(`${base}\n${lines.split('\n')[0]}\ndocker inspect tranche --format '{{.HealthCheck}}'`)
  assert.equal(plain.code, 0, plain.err)
  assert.match(plain.err, /HEALTHCHECK is not supported for OCI image format/, 'as the guide says')

  const { code, out, err } = bash(
    `${lines}
    until curl -sf http://127.0.0.1:${port}/healthz; do sleep 0.1; done; echo
    docker healthcheck run tranche
    docker inspect tranche --format '{{.State.Health.Status}} {{.Config.User}}'
    docker exec tranche tranche check
    docker exec tranche tranche partner list
    docker kill --signal STOP tranche > rest
    docker healthcheck run tranche > rest || echo 'a service that hangs is not well'
    docker kill --signal CONT tranche > rest
    docker stop --time 40 tranche > rest
    docker inspect tranche --format '{{.State.ExitCode}}'`,
    '--format docker',
  )
  assert.equal(code, 0, `${out}${err}`)
  assert.match(out, /\n\{"status":"up"\}\n(healthy\n)?healthy 10001:10001\nok\nSLUG [^\n]*\nacme [^\n]*\n/)
  assert.match(out, /\na service that hangs is not well\n0\n$/)
})
